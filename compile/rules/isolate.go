package rules

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/routesrv/routesrv/kube"
)

// What goes wrong with one object must not cost another object its routes: neither a mistake in this program nor an object that
// compiles to more than a process can hold.

// DefaultMaxObjectBytes is the default of [Options.MaxObjectBytes].
const DefaultMaxObjectBytes = 8 << 20

// maxObjectRoutes is the maximum number of routes of one object, including its companions and clones. The catch-alls of its
// hosts do not count: there is one for each host with a route that counts.
const maxObjectRoutes = 5_000

// size is how much one object has compiled to so far. It is checked while the object is compiled, because the whole result may be
// thousands of times as large as the object.
type size struct {
	most   int // maximum of bytes; 0: no limit
	routes int
	bytes  int // of the printed routes
	said   int // of the problems
}

// oversized ends the compilation of an object, see [isolated].
type oversized struct{ what string }

// route counts a printed route.
func (s *size) route(bytes int) {
	s.routes++
	s.bytes += bytes
	switch {
	case s.most == 0:
	case s.routes > maxObjectRoutes:
		panic(oversized{fmt.Sprintf("more than %d routes", maxObjectRoutes)})
	case s.bytes > s.most:
		panic(oversized{fmt.Sprintf("more than %s", mebibytes(s.most))})
	}
}

// say counts the text of a problem.
func (s *size) say(bytes int) {
	if s.said += bytes; s.most > 0 && s.said > DefaultMaxObjectBytes {
		panic(oversized{fmt.Sprintf("problems with more than %s of text", mebibytes(DefaultMaxObjectBytes))})
	}
}

func mebibytes(n int) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}

// checkSize warns before the limit: endpoints count, and grow without a change of the object.
func (u *Unit) checkSize() {
	if u.most == 0 || u.bytes <= u.most/2 && u.routes <= maxObjectRoutes/2 {
		return
	}
	u.add(Problem{
		Reason: TooLarge, Severity: Warning, About: "near",
		Message: fmt.Sprintf("the object compiles to %d routes and %d bytes, and may have %d routes and %d bytes: beyond that none is served",
			u.routes, u.bytes, maxObjectRoutes, u.most),
		Detail: fmt.Sprintf("the object makes %d routes with %d bytes, which is more than half of what one object may have (%d routes, %s); "+
			"nothing of a larger one is served", u.routes, u.bytes, maxObjectRoutes, mebibytes(u.most)),
	})
}

// isolated runs a part of the compilation of one object. If that panics, it returns the problem of the object.
func isolated(run func()) (failed *Problem) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case oversized:
			failed = &Problem{
				Reason: TooLarge, Severity: Error, About: "size",
				Message: "all routes of the object left out, it compiles to " + v.what,
				Detail:  fmt.Sprintf("the object makes %s, which is more than one object may have, so nothing of it is served", v.what),
			}
		default:
			why := fmt.Sprintf("panic: %.200v (%s)", v, panicked())
			failed = &Problem{
				Reason: InternalError, Severity: Error, Message: "all routes of the object left out, because of a defect of routesrv: " + why,
				Detail: "routesrv fails on the object because of a defect of its own, so nothing of it is served",
			}
		}
	}()
	run()
	return nil
}

// panicked returns the function and line that panicked, for a deferred function of [isolated].
func panicked() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for behind := false; ; {
		frame, more := frames.Next()
		switch {
		case frame.Function == "runtime.gopanic":
			behind = true
		case behind && !strings.HasPrefix(frame.Function, "runtime."):
			return fmt.Sprintf("%s:%d", frame.Function, frame.Line)
		}
		if !more {
			return "unknown place"
		}
	}
}

// newUnit returns the unit of an object before its compilation.
func newUnit(set *Set, v *View, owner kube.Ref) *Unit {
	return &Unit{lookups: lookups{view: v, filters: v.filters}, findings: findings{owner: owner, size: size{most: set.MaxObjectBytes}}}
}

// lose drops everything that was compiled and leaves one problem. The lookups stay: if their results change, the object is compiled
// again.
func (u *Unit) lose(p *Problem) {
	*u = Unit{lookups: u.lookups, findings: findings{owner: u.owner}}
	u.add(*p)
}
