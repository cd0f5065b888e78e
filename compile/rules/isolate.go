package rules

import (
	"fmt"
	"runtime"
	"strings"
)

// DefaultMaxObjectBytes is the default of [Options.MaxObjectBytes].
const DefaultMaxObjectBytes = 8 << 20

// maxObjectRoutes is the maximum number of routes of one object, with companions and clones, without catch-alls.
const maxObjectRoutes = 5_000

// size is how much one object has compiled to so far: it may become thousands of times as large as the object.
type size struct {
	most   int // maximum of bytes; 0: no limit
	routes int
	bytes  int // of the printed routes
	said   int // of the problems
}

type oversized struct{ what string }

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

func (s *size) say(bytes int) {
	if s.said += bytes; s.most > 0 && s.said > DefaultMaxObjectBytes {
		panic(oversized{fmt.Sprintf("problems with more than %s of text", mebibytes(DefaultMaxObjectBytes))})
	}
}

func mebibytes(n int) string { return fmt.Sprintf("%.3g MiB", float64(n)/(1<<20)) }

// checkSize warns before the limit: endpoints count, and grow without a change of the object.
func (u *Unit) checkSize() {
	if u.most == 0 || u.bytes <= u.most/2 && u.routes <= maxObjectRoutes/2 {
		return
	}
	u.ownf(Problem{Reason: TooLarge, Severity: Warning, About: "near"}, "the object makes %d routes with %d bytes, which is more than half of what "+
		"one object may have (%d routes, %s); nothing of a larger one is served", u.routes, u.bytes, maxObjectRoutes, mebibytes(u.most))
}

// isolated drops all of a unit whose compilation panics, for one problem, but not the lookups: they may change.
func (u *Unit) isolated(run func()) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		*u = Unit{lookups: u.lookups, findings: findings{owner: u.owner}}
		if o, is := v.(oversized); is {
			u.ownf(Problem{Reason: TooLarge, Severity: Error, About: "size"},
				"the object makes %s, which is more than one object may have, so nothing of it is served", o.what)
			return
		}
		u.add(Problem{
			Reason: InternalError, Severity: Error, Detail: InternalError.Info().Means,
			Message: fmt.Sprintf("all routes of the object left out, because of a defect of routesrv: panic: %.200v (%s)", v, panicked()),
		})
	}()
	run()
}

func panicked() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs[:])]) // from the caller of panic, or of what panics in the runtime
	for {
		frame, more := frames.Next()
		if !more || !strings.HasPrefix(frame.Function, "runtime.") {
			return fmt.Sprintf("%s:%d", frame.Function, frame.Line)
		}
	}
}
