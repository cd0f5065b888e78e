package server

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/publish/history"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/table"
)

// maxWarned is how many routes the warnings of a command name.
const maxWarned = 20

// steeringEndpoint returns /steering of the control socket.
func (s *Server) steeringEndpoint() httpserve.Endpoint {
	return httpserve.Endpoint{
		Listener: httpserve.ControlListener, Path: api.PathSteering, Methods: []string{http.MethodPost}, MaxBody: httpserve.MaxForm, Handler: http.HandlerFunc(s.serveSteering),
		Does: "[steers](../operate/steering.md) objects: `order=` is `freeze`, `rollback` (`entry=` or `at=`, `deleted=true`), `release`, or of what soaks `promote` or `halt`; `namespace=` or `object=` choose objects, else all; `until=` is a time, or `release`; `dry=true`",
	}
}

// command is a command of an operator about objects.
type command struct {
	order string
	entry uint64    // of a rollback
	at    time.Time // or when it was current
	names []string  // or the versions to which it goes
	of    string    // and which these are, in words
	dry   bool
	// deleted limits a rollback to objects that no longer exist.
	deleted bool
	publish.Order
}

// serveSteering carries out a command, or reports what it would do.
func (s *Server) serveSteering(w http.ResponseWriter, r *http.Request) {
	peer, ok := httpserve.PeerOf(r.Context())
	if !ok {
		httpserve.WriteJSON(w, http.StatusForbidden, api.Error{Error: "only over the control socket"})
		return
	}
	var c command
	form, err := httpserve.ReadForm(w, r)
	if err == nil {
		c, err = readCommand(form, time.Now())
	}
	if err == nil && c.By == "" {
		c.By = peer.String()
	}
	if err != nil {
		httpserve.WriteJSON(w, http.StatusBadRequest, api.Error{Error: err.Error()})
		return
	}
	answer, err := s.steer(r, &c)
	switch {
	case errors.Is(err, history.ErrNoEntry):
		httpserve.WriteJSON(w, http.StatusNotFound, api.Error{Error: err.Error()})
	case errors.Is(err, publish.ErrNotSteered), errors.Is(err, publish.ErrNotSoaking):
		httpserve.WriteJSON(w, http.StatusConflict, api.Error{Error: err.Error()})
	case err != nil:
		httpserve.WriteJSON(w, http.StatusServiceUnavailable, api.Error{Error: err.Error()})
	default:
		httpserve.WriteJSON(w, http.StatusOK, answer)
	}
}

// readCommand reads the parameters of a command. The error names the invalid one.
func readCommand(form url.Values, now time.Time) (c command, err error) {
	c.order, c.dry = form.Get("order"), form.Get("dry") == "true"
	if c.By, c.Why, err = httpserve.WordsOf(form); err != nil {
		return c, err
	}
	c.Scope.Namespace = form.Get("namespace")
	if text := form.Get("object"); text != "" {
		ref, err := httpserve.ParseRef(text)
		switch {
		case err != nil:
			return c, err
		case c.Scope.Namespace != "":
			return c, errors.New("must be a namespace or an object, not both")
		case ref.Kind == kube.KindService:
			return c, errors.New("a Service cannot be steered: its endpoints are always those of today")
		}
		c.Scope = publish.Scope(ref)
	}
	switch c.order {
	case api.SteerFreeze:
		c.Freeze = true
	case api.SteerRollback:
		c.names, c.of = form["pin"], form.Get("of")
		if err := httpserve.CheckWords("of", c.of); err != nil {
			return c, err
		}
		if c.deleted = form.Get("deleted") == "true"; len(c.names) > 0 {
			break
		}
		switch at := form.Get("at"); {
		case at != "" && form.Get("entry") != "":
			return c, errors.New("must be an entry of the history or a time, not both")
		case at != "":
			if c.at, err = moment(at, now); err != nil {
				return c, err
			}
		default:
			if c.entry, err = strconv.ParseUint(form.Get("entry"), 10, 64); err != nil {
				return c, fmt.Errorf("entry %q: must be the number of an entry of the history", form.Get("entry"))
			}
		}
	case api.SteerRelease:
		c.Release = true
		return c, nil
	case api.SteerPromote, api.SteerHalt:
		c.Promote, c.Halt = c.order == api.SteerPromote, c.order == api.SteerHalt
		if c.Halt && strings.TrimSpace(c.Why) == "" {
			err = errors.New("why: a halt needs a reason")
		}
		return c, err
	default:
		return c, fmt.Errorf("order %q: must be %s, %s, %s, %s or %s", c.order, api.SteerFreeze, api.SteerRollback, api.SteerRelease, api.SteerPromote, api.SteerHalt)
	}
	if c.order == api.SteerRollback {
		c.Freeze = c.Scope.Name == "" && !c.deleted // also what did not change since then stays as it is
	}
	switch until := form.Get("until"); {
	case until == api.SteerRelease && strings.TrimSpace(c.Why) == "":
		err = errors.New("why: a freeze or pin without an end needs a reason")
	case until == api.SteerRelease:
	case until == "":
		c.Until = now.Add(api.DefaultSteering).UTC()
	default:
		if c.Until, err = time.Parse(time.RFC3339, until); err != nil {
			err = fmt.Errorf("until %q: must be a time such as 2026-11-25T12:03:00Z, or %q", until, api.SteerRelease)
		} else if left := c.Until.Sub(now); left <= 0 || left > api.MaxSteering {
			err = fmt.Errorf("until %s: must be a time within the next %v; longer lasts only what has a reason and no end", until, api.MaxSteering)
		}
	}
	return c, err
}

// steer carries out a command, unless it is a dry run, and reports its changes.
func (s *Server) steer(r *http.Request, c *command) (*api.Steered, error) {
	parts := len(c.names) > 0 // a part of a plan, which the caller knows
	if c.order == api.SteerRollback {
		if err := s.pins(c); err != nil {
			return nil, err
		}
	}
	answer := &api.Steered{Dry: c.dry, What: c.words(), Until: c.Until, Pins: c.names, By: c.By, Why: c.Why}
	if parts && !c.dry {
		return answer, s.carryOut(c, answer)
	}
	before, after, err := s.publisher.Preview(c.Order)
	switch {
	case err == nil:
		answer.Warnings = s.warnings(before, after)
		view, err := s.compared(r.Context(), before, after, "served", "then")
		if err != nil {
			return nil, err
		}
		var text strings.Builder
		if err := shadowdiff.WriteText(&text, view); err != nil {
			return nil, err
		}
		answer.Changes = strings.TrimSpace(text.String())
	case errors.Is(err, publish.ErrNotSteered), errors.Is(err, publish.ErrNotSoaking), c.dry:
		return nil, err
	default: // right after the start: the first read has it
		answer.Warnings = []string{err.Error()}
	}
	if c.dry {
		return answer, nil
	}
	return answer, s.carryOut(c, answer)
}

// carryOut carries out a command, and reports in the answer what is served then.
func (s *Server) carryOut(c *command, answer *api.Steered) error {
	if err := s.publisher.Steer(c.Order); err != nil {
		return err
	}
	if t := s.publisher.Table(); t != nil {
		answer.Digest = t.Digest()
	}
	s.tables.Recheck()
	return nil
}

// words describes a command.
func (c *command) words() string {
	switch c.order {
	case api.SteerRollback:
		return fmt.Sprintf("roll back %s to %s", c.Scope, c.of)
	case api.SteerRelease, api.SteerPromote, api.SteerHalt:
		return c.order + " " + c.Scope.String()
	}
	return "freeze " + c.Scope.String()
}

// pins fills in the objects that differ from the entry to which a command rolls back, or the versions that it names.
func (s *Server) pins(c *command) error {
	var versions []*history.Version
	if len(c.names) > 0 {
		for _, name := range c.names {
			v, err := s.history.Find(name)
			if err != nil {
				return err
			}
			versions = append(versions, v)
		}
	} else {
		var err error
		if versions, err = s.differing(c); err != nil {
			return err
		}
	}
	for _, v := range versions {
		switch v.Kind {
		case kube.KindIngress, kube.KindRouteGroup:
			c.Pins = append(c.Pins, publish.Pin(v.Ref, v.Object(), "as of "+c.of))
		default:
			c.Pins = append(c.Pins, publish.PinFilters(v.DefaultFilters, "as of "+c.of))
		}
	}
	return nil
}

// differing returns the versions in the entry of a command that differ from the served ones, and fills in its names and words.
func (s *Server) differing(c *command) ([]*history.Version, error) {
	if !c.at.IsZero() {
		e, ok := s.history.At(c.at)
		if !ok {
			return nil, fmt.Errorf("%w: the history is younger than %s", history.ErrNoEntry, c.at.UTC().Format(time.RFC3339))
		}
		c.entry = e.N
	}
	entry, err := s.history.Entry(c.entry)
	if err != nil {
		return nil, err
	}
	c.of = fmt.Sprintf("entry %d of %s", c.entry, entry.At.Format(time.RFC3339))
	then, err := s.history.Versions(c.entry, c.Scope.Has)
	if err != nil {
		return nil, err
	}
	served := s.publisher.Served()
	if served == nil || served.Snapshot == nil {
		return nil, errors.New("nothing was read yet, so the changes are unknown")
	}
	now := s.history.VersionsOf(&served.Snapshot.Intent)
	pinned := make(map[kube.Ref]bool) // by an earlier command, which other replicas may lack
	for _, k := range s.publisher.List() {
		pinned[k.Ref] = k.Reason == publish.ReasonPin
	}
	newest := make(map[kube.Ref]bool)
	if r := s.compiler.Latest(); r != nil && c.deleted {
		for o := range r.Snapshot.Objects() {
			newest[o.Ref()] = true
		}
	}
	var versions []*history.Version
	for ref, was := range then {
		switch {
		case c.deleted && (newest[ref] || was.Object() == nil):
		case c.Scope.Name != "", pinned[ref], !was.Same(now[ref]): // one object stays as it was also if it is like that now
			versions = append(versions, was)
		}
	}
	if len(versions) == 0 && c.deleted {
		return nil, fmt.Errorf("%w: every object of entry %d exists", history.ErrNoEntry, c.entry)
	}
	if len(versions) == 0 && c.Scope.Name != "" {
		return nil, fmt.Errorf("%s: %w", c.Scope, history.ErrNoEntry)
	}
	slices.SortFunc(versions, func(a, b *history.Version) int { return a.Ref.Compare(b.Ref) })
	for _, v := range versions {
		c.names = append(c.names, v.Name())
	}
	return versions, nil
}

// warnings reports what a table following another one cannot honour, and what it re-opens: routes whose services have no
// endpoints today, and authentication filters that routes would lose.
func (s *Server) warnings(before, after *table.Table) (all []string) {
	owner := s.owners()
	more := 0
	warn := func(r *table.Route, text string) {
		if len(all) == maxWarned {
			more++
			return
		}
		o := owner.Of(r.ID)
		all = append(all, fmt.Sprintf("%s %s/%s, route %s: %s", o.Kind, o.Namespace, o.Name, r.ID, text))
	}
	for was, is := range table.Changes(before.Routes(), after.Routes()) {
		if is == nil {
			continue
		}
		lost := authenticates(was)
		for _, name := range authenticates(is) {
			lost = slices.DeleteFunc(lost, func(n string) bool { return n == name })
		}
		if len(lost) > 0 {
			warn(is, "loses "+strings.Join(lost, ", ")+", so requests pass that were refused")
		}
		if strings.Contains(is.Text, "no endpoints") && (was == nil || !strings.Contains(was.Text, "no endpoints")) {
			warn(is, "its service has no endpoints today")
		}
	}
	if more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return all
}

// authenticates returns the filters of a route that refuse requests by who sends them.
func authenticates(r *table.Route) (names []string) {
	if r == nil {
		return nil
	}
	parsed, err := eskip.Parse(r.Text)
	if err != nil {
		return nil
	}
	for _, route := range parsed {
		for _, f := range route.Filters {
			if catalogue.Authenticates(f.Name) {
				names = append(names, f.Name)
			}
		}
	}
	return names
}

// steering returns the freezes and pins; nil if there are none.
func (s *Server) steering() *api.Steering {
	orders, digest := s.publisher.Orders()
	if len(orders) == 0 {
		return nil
	}
	st := &api.Steering{Digest: digest}
	for _, k := range orders {
		o := api.Order{What: string(k.Reason), Scope: k.Ref.String(), Detail: k.Detail, By: cmp.Or(k.By, "operator"), Since: k.Since, Until: k.Until}
		if scope, isFreeze := publish.FreezeOf(k); isFreeze {
			o.Scope = scope.String()
		}
		st.Orders = append(st.Orders, o)
	}
	return st
}
