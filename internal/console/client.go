package console

import (
	"context"
	"net/http"
	"slices"

	"github.com/routesrv/routesrv/fleet"
)

// clientPage is the body of the page of a client.
type clientPage struct {
	Known   bool // the server knows the fleet
	ID      string
	Error   string
	Client  *fleet.Client // nil if no such client was heard lately
	Row     clientRow
	Serves  *fleet.Table // the table that the replica serves
	Figures []figure
}

type figure struct{ Name, Value, Tone string }

// client shows the page of one client of the fleet.
func (c *Console) client(ctx context.Context, r *http.Request) (answer, error) {
	id := r.URL.Query().Get("id")
	b := clientPage{Known: c.cfg.Fleet != nil, ID: cut(id, 300)}
	a := answer{Title: "client " + cut(id, 80), Live: b.Known, Status: http.StatusNotFound}
	if !b.Known {
		a.Body = b
		return a, nil
	}
	ask, cancel := context.WithTimeout(ctx, fleetTimeout)
	defer cancel()
	v, err := c.cfg.Fleet(ask, fleet.Query{ID: id})
	switch {
	case err != nil:
		b.Error, a.Status = text(err.Error()), http.StatusBadGateway
	default:
		i := slices.IndexFunc(v.Clients, func(one fleet.Client) bool { return one.ID == id })
		if i < 0 {
			break
		}
		one := &v.Clients[i]
		b.Client, b.Serves, b.Row, b.Figures, a.Status = one, v.Table, newClientRow(*one), figuresOf(one.Figures), 0
		a.Title = b.Row.State.Sign + " " + cut(id, 80)
	}
	a.Body = b
	return a, nil
}

// figuresOf lists what a proxy says of itself.
func figuresOf(f *fleet.Figures) (all []figure) {
	if f == nil {
		return nil
	}
	add := func(name string, v *uint64, tone string) {
		if v != nil {
			all = append(all, newFigure(name, *v, tone))
		}
	}
	add("requests", f.Requests, "")
	add("answers with 5xx", f.Errors, notice)
	add("404 without a route", f.NoRoute, notice)
	add("routes in its table", f.Routes, "")
	add("tables applied", f.Updates, "")
	if f.RefusedNew > 0 {
		add("routes refused since it fetched its table", &f.RefusedNew, bad)
	}
	return all
}

// newFigure returns a figure whose tone counts only if it is not zero.
func newFigure(name string, n uint64, tone string) figure {
	if n == 0 {
		tone = ""
	}
	return figure{name, thousands(int(min(n, 1<<62))), tone}
}
