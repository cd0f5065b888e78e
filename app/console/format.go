package console

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/shadowdiff"
)

const maxText = 2000

// text prepares an external text for display: visible characters only, at most maxText. The template escapes it.
func text(s string) string { return cut(s, maxText) }

// cut is text with another limit.
func cut(s string, limit int) string {
	if len(s) > limit { // in bytes: the text has at most as many characters
		n := 0
		for i := range s {
			if n++; n > limit {
				s = s[:i] + "…"
				break
			}
		}
	}
	return shadowdiff.Printable(strings.Map(blank, s))
}

func blank(r rune) rune {
	if r == '\n' || r == '\t' || r == '\r' {
		return ' '
	}
	return r
}

func bytesText(n int) string {
	switch v := float64(n); {
	case n < 1000:
		return strconv.Itoa(n) + "\u00a0B"
	case n < 1000_000:
		return fmt.Sprintf("%.1f\u00a0kB", v/1e3)
	case n < 1000_000_000:
		return fmt.Sprintf("%.1f\u00a0MB", v/1e6)
	default:
		return fmt.Sprintf("%.2f\u00a0GB", v/1e9)
	}
}

// short formats a duration in its one or two largest units.
func short(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "\u00a0s"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "\u00a0min"
	case d < 48*time.Hour:
		h, m := int(d.Hours()), int(d.Minutes())%60
		if m == 0 || h > 9 {
			return strconv.Itoa(h) + "\u00a0h"
		}
		return fmt.Sprintf("%d\u00a0h\u00a0%d\u00a0min", h, m)
	default:
		return strconv.Itoa(int(d.Hours()/24)) + "\u00a0days"
	}
}

// moment is a time as a page shows it: its age, with the time itself for machines and tooltips.
type moment struct {
	Machine string // RFC 3339, empty for a zero time
	Ago     string
}

func newMoment(t, now time.Time) moment {
	if t.IsZero() {
		return moment{Ago: "never"}
	}
	m := moment{Machine: t.UTC().Format(time.RFC3339), Ago: short(now.Sub(t)) + " ago"}
	if t.After(now.Add(time.Second)) {
		m.Ago = "in " + short(t.Sub(now))
	}
	return m
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return shadowdiff.Grouped(n) + " " + thing + "s"
}

type ownerLink struct{ Name, Link string }

// linkTo returns an object with a link to its explanation, which only kinds with routes have.
func linkTo(r kube.Ref) ownerLink {
	o := ownerLink{Name: cut(r.String(), 300)}
	if (r.Kind == kube.KindIngress || r.Kind == kube.KindRouteGroup) && r.Name != "" {
		o.Link = "explain?" + url.Values{"kind": {string(r.Kind)}, "namespace": {r.Namespace}, "name": {r.Name}}.Encode()
	}
	return o
}
