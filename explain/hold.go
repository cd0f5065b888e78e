package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

// Hold is the reason why proxies get an earlier state than the newest read.
type Hold struct {
	Reason string     `json:"reason"` // code of the guard
	Detail string     `json:"detail"`
	Since  time.Time  `json:"since"`
	Until  *time.Time `json:"release_at,omitempty"` // the earliest end; nil if it doesn't end with time
	// By names what holds it, and Do is a sentence for the team of the object. Empty means the guard.
	By string `json:"-"`
	Do string `json:"-"`
	// Snapshot is the served snapshot; nil if only the served table is known, as after a restart.
	Snapshot *kube.Snapshot `json:"-"`
}

// Values of Object.Newest.
const (
	NewestDeleted   = "deleted"
	NewestChanged   = "changed"
	NewestEndpoints = "without_endpoints"
)

func (x *explainer) newest(o *Object) string {
	now, ok := x.Result.Inspect(o.Owner)
	was, _ := x.result.Inspect(o.Owner)
	switch {
	case !ok:
		return NewestDeleted
	case now.Object != was.Object:
		return NewestChanged
	}
	for i := range now.Services {
		s := &now.Services[i]
		if ready, _ := s.Readiness(); ready == 0 && slices.ContainsFunc(o.Services, func(k Service) bool {
			return k.Namespace == s.Key.Namespace && k.Name == s.Key.Name && k.Ready > 0
		}) {
			return NewestEndpoints
		}
	}
	return ""
}

// reportHold marks the objects that are served in an earlier state, and adds the reason and the way out.
func (x *explainer) reportHold() {
	x.out.Hold = x.Hold
	var kept []string
	newest := ""
	for i := range x.out.Objects {
		o := &x.out.Objects[i]
		if o.Newest = x.newest(o); o.Newest != "" {
			kept, newest = append(kept, o.Owner.String()), o.Newest
		}
	}
	if len(kept) == 0 {
		return
	}
	what := "The newest read of the cluster no longer shows " + short(kept, 3)
	advice := "Apply it again if it was deleted by mistake."
	switch {
	case len(kept) > 1:
		what, advice = "The newest read of the cluster shows another state of "+short(kept, 3), ""
	case newest == NewestChanged:
		what, advice = "The newest read of the cluster shows a later version, which waits", ""
	case newest == NewestEndpoints:
		what, advice = "In the newest read of the cluster its services have no ready pods, and their last addresses are kept", ""
	}
	x.out.Cause += " " + what + ": " + x.Hold.text() + "."
	x.out.Advice = strings.TrimSpace(x.out.Advice + " " + advice + " " + x.Hold.advice())
	if x.out.Result == "fine" || x.out.Result == rules.Info.String() {
		x.out.Result = rules.Warning.String()
	}
}

func (h *Hold) text() string {
	text := fmt.Sprintf("%s holds it back since %s (%s: %s)", cmp.Or(h.By, "the guard"), h.Since.UTC().Format(time.RFC3339), h.Reason, h.Detail)
	if h.Until != nil {
		text += fmt.Sprintf(", until %s at the earliest", h.Until.UTC().Format(time.RFC3339))
	}
	return text
}

func (h *Hold) advice() string {
	if h.Do != "" {
		return h.Do
	}
	if h.Until == nil {
		return "If the change is intended, ask the operators of the ingress to accept it (routesrv accept): time does not end this hold."
	}
	return "If the change is intended, wait for that time, or ask the operators of the ingress to accept it (routesrv accept)."
}
