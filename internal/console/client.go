package console

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/routesrv/routesrv/fleet"
)

// clientPage is the body of the page of a client.
type clientPage struct {
	Known   bool // the server knows the fleet
	ID      string
	Found   bool
	Error   string
	Row     clientRow
	Pod     string
	Address string
	Relay   ownerLink
	First   moment
	Every   string
	Serves  *holdRow // the table that the replica serves
	Holds   *holdRow
	Fetched *holdRow
	Applied string
	Figures []figure
	Refused []figure
	Read    moment // when the figures were read
	Exact   bool   // all clients were searched
}

type holdRow struct {
	ETag, Digest string
	Revision     uint64
	Since        moment
	Same         bool // same as the replica serves
}

type figure struct{ Name, Value, Tone string }

// client shows the page of one client of the fleet.
func (c *Console) client(ctx context.Context, r *http.Request) (answer, error) {
	id := r.URL.Query().Get("id")
	b := clientPage{Known: c.cfg.Fleet != nil, ID: cut(id, 300), Exact: true}
	a := answer{Title: "client " + cut(id, 80), Live: true}
	if !b.Known {
		a.Status, a.Body, a.Live = http.StatusNotFound, b, false
		return a, nil
	}
	v, err := c.fleet.all(ctx)
	if err != nil {
		b.Error = text(err.Error())
		a.Status, a.Body = http.StatusBadGateway, b
		return a, nil
	}
	found := find(v.Clients, id)
	for _, state := range fleet.States() {
		if found != nil || !v.Truncated {
			break
		}
		ask, cancel := context.WithTimeout(ctx, fleetTimeout)
		part, err := c.cfg.Fleet(ask, string(state))
		cancel()
		b.Exact = b.Exact && err == nil && !part.Truncated
		found = find(part.Clients, id)
	}
	if found == nil {
		a.Status, a.Body = http.StatusNotFound, b
		return a, nil
	}
	b.show(found, v.Table, time.Now())
	a.Title, a.Body = b.Row.State.Sign+" "+cut(id, 80), b
	return a, nil
}

func find(clients []fleet.Client, id string) *fleet.Client {
	for i := range clients {
		if clients[i].ID == id {
			return &clients[i]
		}
	}
	return nil
}

func (b *clientPage) show(one *fleet.Client, serves *fleet.Table, now time.Time) {
	b.Found, b.Row = true, newClientRow(*one, now)
	b.Pod, b.Address = cut(one.Pod, 300), cut(one.Address, 100)
	if one.Relay != "" {
		b.Relay = ownerLink{cut(one.Relay, 200), "client?" + url.Values{"id": {one.Relay}}.Encode()}
	}
	b.First, b.Every = newMoment(one.FirstHeard, now), durationText(time.Duration(one.IntervalSeconds*float64(time.Second)))
	b.Serves, b.Holds, b.Fetched = newHold(serves, serves, now), newHold(one.Holds, serves, now), newHold(one.Fetched, serves, now)
	switch one.Applied {
	case fleet.AppliedDone:
		b.Applied = "The proxy has applied a table since it fetched this one."
	case fleet.AppliedFetched:
		b.Applied = "The proxy has fetched it, and not shown yet that it applied it."
	default:
		b.Applied = "It is unknown which table the proxy has applied, because its metrics are unknown."
		if one.FiguresError != "" {
			b.Applied = "It is unknown which table the proxy has applied, because its metrics cannot be read: " + text(one.FiguresError) + "."
		}
	}
	f := one.Figures
	if f == nil {
		return
	}
	b.Read = newMoment(f.Time, now)
	add := func(name string, v *uint64, tone string) {
		if v == nil {
			return
		}
		if *v == 0 {
			tone = ""
		}
		b.Figures = append(b.Figures, figure{name, thousands(int(min(*v, 1<<62))), tone})
	}
	add("requests", f.Requests, "")
	add("answers with 5xx", f.Errors, notice)
	add("404 without a route", f.NoRoute, notice)
	add("routes in its table", f.Routes, "")
	add("tables applied", f.Updates, "")
	if !f.LastApply.IsZero() {
		b.Figures = append(b.Figures, figure{"last table applied", newMoment(f.LastApply, now).Ago, ""})
	}
	if f.RefusedNew > 0 {
		b.Figures = append(b.Figures, figure{"routes refused since it fetched its table", strconv.FormatUint(f.RefusedNew, 10), bad})
	}
	for i, reason := range slices.Sorted(maps.Keys(f.Refused)) {
		if i == maxReasonsShown {
			break
		}
		b.Refused = append(b.Refused, figure{cut(reason, 100), strconv.FormatUint(f.Refused[reason], 10), ""})
	}
}

func newHold(t, serves *fleet.Table, now time.Time) *holdRow {
	if t == nil {
		return nil
	}
	h := &holdRow{ETag: cut(t.ETag, 150), Digest: t.Digest.String(), Revision: t.Revision, Since: newMoment(t.Since, now)}
	h.Same = serves != nil && serves.Digest == t.Digest
	return h
}
