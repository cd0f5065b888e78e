package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/validate"
)

// laneOf is a lane of the drawing.
type laneOf struct {
	name, about string
	class       string
	marks       []mark
}

// mark is an item on a lane.
type mark struct {
	from, to time.Duration
	class    string
	share    float64 // of the height; 0 means all
	text     string
}

// lanesOf returns the lanes from top to bottom: changes, faults by target, processes, clients.
func lanesOf(h *history.History, end time.Duration, violations []validate.Violation) []laneOf {
	lanes := changes(h, end)
	lanes = append(lanes, faults(h)...)
	broken := make(map[string][]mark)
	for _, v := range violations {
		broken[v.Member] = append(broken[v.Member], mark{from: v.At, to: v.At + end/300, class: "violation", text: v.String()})
	}
	var processes, clients []laneOf
	for i := range h.Run.Members {
		m := &h.Run.Members[i]
		l := laneOf{name: m.Name, about: about(m)}
		switch m.Kind {
		case history.Server, history.Relay, history.Sidecar:
			l.class, l.marks = "process", append(published(h, m.Name, end), events(h, m.Name, end)...)
			l.marks = append(l.marks, thin(broken[m.Name], end)...)
			processes = append(processes, l)
		default:
			l.class, l.marks = "client", append(answers(h, m.Name, end), thin(broken[m.Name], end)...)
			clients = append(clients, l)
		}
	}
	return slices.Concat(lanes, processes, clients)
}

func about(m *history.Member) string {
	text := m.Kind + " " + m.Name
	for _, s := range []struct{ name, value string }{
		{"asks", strings.Join(m.Upstreams, ", ")}, {"transport", m.Transport}, {"mode", m.Mode}, {"zone", m.Zone},
	} {
		if s.value != "" {
			text += ", " + s.name + " " + s.value
		}
	}
	return text
}

// changes draws the number of changes over time, by class.
func changes(h *history.History, end time.Duration) []laneOf {
	const columns = 220
	width := max(end/columns, time.Millisecond)
	var lanes []laneOf
	for _, group := range []struct {
		name, class string
		classes     []string
	}{
		{"changes", "change", []string{"valid", "endpoint"}}, {"invalid", "invalid", []string{"invalid", "poison"}},
		{"mass, repair, reset", "mass", []string{"mass", "repair"}},
	} {
		count := make(map[time.Duration]int)
		most := 0
		for _, c := range h.Changes {
			if slices.Contains(group.classes, c.Class) || c.Reset && group.class == "mass" {
				at := c.At / width
				count[at]++
				most = max(most, count[at])
			}
		}
		l := laneOf{name: group.name, about: "objects written to the API", class: "changes"}
		for at, n := range count {
			l.marks = append(l.marks, mark{
				from: at * width, to: (at + 1) * width, class: group.class, share: max(0.15, float64(n)/float64(most)),
				text: fmt.Sprintf("%d changes from %s to %s", n, seconds(at*width), seconds((at+1)*width)),
			})
		}
		byTime(l.marks)
		if len(l.marks) > 0 {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

// faults draws the faults of each link on a separate lane.
func faults(h *history.History) []laneOf {
	byLink := make(map[string]*laneOf)
	for _, f := range h.Faults {
		l := byLink[f.Link]
		if l == nil {
			l = &laneOf{name: f.Link, about: "faults on " + f.Link, class: "faults"}
			byLink[f.Link] = l
		}
		l.marks = append(l.marks, mark{
			from: f.From, to: max(f.From, f.To), class: "fault",
			text: strings.TrimSpace(fmt.Sprintf("%s %s from %s to %s", f.Name, f.Args, seconds(f.From), seconds(max(f.From, f.To)))),
		})
	}
	var lanes []laneOf
	for _, l := range byLink {
		byTime(l.marks)
		lanes = append(lanes, *l)
	}
	slices.SortFunc(lanes, func(a, b laneOf) int { return strings.Compare(a.name, b.name) })
	return lanes
}

// published marks when each table was first received from this member.
func published(h *history.History, member string, end time.Duration) []mark {
	seen := make(map[string]bool)
	var all []mark
	for i := range h.Answers {
		a := &h.Answers[i]
		if a.Server != member || a.Outcome != history.Applied || seen[a.Digest] {
			continue
		}
		seen[a.Digest] = true
		all = append(all, mark{from: a.End, to: a.End, class: "change", share: 0.6, text: fmt.Sprintf(
			"table %.12s of revision %d, first received by %s after %s %s", a.Digest, a.Revision, a.Client, seconds(a.End), a.State)})
	}
	return thin(all, end)
}

// events marks the actions of a process or an operator.
func events(h *history.History, member string, end time.Duration) []mark {
	var all []mark
	for _, e := range h.Events {
		if e.Member == member {
			all = append(all, mark{from: e.At, to: e.At + end/400, class: "event", text: strings.TrimSpace(fmt.Sprintf("%s %s after %s", e.Name, e.Args, seconds(e.At)))})
		}
	}
	return thin(all, end)
}

// answers marks the answers that a client received.
func answers(h *history.History, client string, end time.Duration) []mark {
	byClass := make(map[string][]mark)
	for i := range h.Answers {
		a := &h.Answers[i]
		if a.Client != client {
			continue
		}
		class, share := "unchanged", 0.35
		switch a.Outcome {
		case history.Applied:
			class, share = "change", 0.8
		case history.Refused:
			class, share = "refused", 1
		case history.Failed:
			class, share = "failed", 0.6
		}
		byClass[class] = append(byClass[class], mark{from: a.Begin, to: a.End, class: class, share: share, text: strings.TrimSpace(fmt.Sprintf(
			"answer %d from %s after %s: %s %s, table %.12s of revision %d %s %s", i, a.Server, seconds(a.End), a.Form, a.Outcome, a.Digest, a.Revision, a.State, a.Why))})
	}
	var all []mark
	for _, class := range []string{"unchanged", "failed", "change", "refused"} { // later classes are drawn over earlier ones
		all = append(all, thin(byClass[class], end)...)
	}
	return all
}

// thin keeps one mark for each distinguishable position, with the number of marks that it represents.
func thin(all []mark, end time.Duration) []mark {
	const places = plot * 2 / 3
	byTime(all)
	width := max(end/places, 1)
	var kept []mark
	hidden := 0
	for _, m := range all {
		if n := len(kept); n > 0 && m.from-kept[n-1].from < width && kept[n-1].class == m.class {
			hidden++
			kept[n-1].to = max(kept[n-1].to, m.to)
			continue
		}
		note(kept, &hidden)
		kept = append(kept, m)
	}
	note(kept, &hidden)
	return kept
}

func note(kept []mark, hidden *int) {
	if *hidden > 0 {
		kept[len(kept)-1].text += fmt.Sprintf(" (and %d more)", *hidden)
		*hidden = 0
	}
}

func byTime(all []mark) {
	slices.SortStableFunc(all, func(a, b mark) int { return cmp.Compare(a.from, b.from) })
}
