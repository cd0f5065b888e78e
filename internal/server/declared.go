package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/internal/httpserve"
	"github.com/routesrv/routesrv/internal/source/manifests"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/publish"
)

// LogInvalidOrder says that an entry of a ConfigMap steers nothing.
const LogInvalidOrder = "an entry of a ConfigMap is no order, it steers nothing"

// maxDeclared is how many orders ConfigMaps may have.
const maxDeclared = 100

// declared reads the orders that ConfigMaps declare. Each entry of one has the parameters of /steering as YAML.
type declared struct {
	s *Server

	mu      sync.Mutex // guards invalid
	invalid []poller.Problem
}

// orders returns the orders of a read that are in force, and remembers the entries that are no orders.
func (d *declared) orders(s *kube.Snapshot, now time.Time) (orders []publish.Order) {
	var invalid []poller.Problem
	count := 0
	for _, m := range s.Orders {
		for _, key := range slices.Sorted(maps.Keys(m.Data)) {
			var o publish.Order
			err := fmt.Errorf("more than %d orders", maxDeclared)
			if count++; count <= maxDeclared {
				o, err = d.order(m, key, now)
			}
			switch {
			case errors.Is(err, errOver):
			case err != nil:
				invalid = append(invalid, poller.Problem{Since: now, Problem: rules.Problem{
					Owner: m.Ref(), Reason: rules.InvalidOrder, Severity: rules.Error, About: key, Message: fmt.Sprintf("entry %q: %v", key, err),
				}})
			default:
				orders = append(orders, o)
			}
		}
	}
	d.remember(invalid)
	return orders
}

// remember replaces the invalid entries, and logs those that are new.
func (d *declared) remember(invalid []poller.Problem) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range invalid {
		p := &invalid[i]
		if was := slices.IndexFunc(d.invalid, func(w poller.Problem) bool { return w.Owner == p.Owner && w.About == p.About }); was >= 0 {
			p.Since = d.invalid[was].Since
			if d.invalid[was].Message == p.Message {
				continue
			}
		}
		d.s.log.Error(LogInvalidOrder, "object", p.Owner.String(), "problem", p.Message)
	}
	d.invalid = invalid
}

// problems returns the entries that are no orders.
func (d *declared) problems() []poller.Problem {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.invalid)
}

// errOver means that the time of an order is over. Git may still have it.
var errOver = errors.New("its time is over")

// order reads an entry of a ConfigMap. The error says what is wrong with it.
func (d *declared) order(m *kube.ConfigMap, key string, now time.Time) (publish.Order, error) {
	form, err := entryForm(m.Data[key])
	if err != nil {
		return publish.Order{}, err
	}
	if until, err := time.Parse(time.RFC3339, form.Get("until")); err == nil && !until.After(now) {
		return publish.Order{}, errOver
	}
	c, err := readCommand(form, now)
	if err != nil {
		return publish.Order{}, err
	}
	if c.order == api.SteerRollback {
		if err := d.s.pins(&c); err != nil {
			return publish.Order{}, err
		}
	}
	by := fmt.Sprintf("ConfigMap %s/%s", m.Namespace, m.Name)
	c.By, c.Declared = by, m.Namespace+"/"+m.Name+"/"+key
	return c.Order, nil
}

// entryForm reads the parameters of /steering from YAML: one order with an end and a scope.
func entryForm(text string) (url.Values, error) {
	if len(text) > httpserve.MaxForm {
		return nil, fmt.Errorf("%d bytes, limit %d", len(text), httpserve.MaxForm)
	}
	var entry map[string]any
	asJSON, err := manifests.ToJSONStrict(manifests.Doc{Line: 1, Text: []byte(text)})
	if err == nil {
		err = json.Unmarshal(asJSON, &entry)
	}
	if err != nil {
		return nil, fmt.Errorf("want YAML with a text for each name: %w", err)
	}
	form := make(url.Values)
	for name, value := range entry {
		if !slices.Contains([]string{"order", "namespace", "object", "all", "pin", "until", "why"}, name) {
			return nil, fmt.Errorf("%q: want order, namespace, object, all, pin, until and why", name)
		}
		switch value.(type) {
		case string, bool:
			form.Set(name, fmt.Sprint(value))
		default:
			return nil, fmt.Errorf("%s: want YAML with a text for each name", name)
		}
	}
	scopes := 0
	for _, name := range []string{"namespace", "object", "all", "pin"} {
		if form.Get(name) != "" {
			scopes++
		}
	}
	order := form.Get("order")
	switch {
	case scopes != 1, form.Has("all") && form.Get("all") != "true":
		return nil, errors.New("want one of namespace, object, all: true, and pin")
	case order == api.SteerRelease:
		return nil, errors.New("order release: remove the entry that is to end instead")
	case (order == api.SteerRollback) != form.Has("pin"):
		return nil, errors.New("order rollback, and no other, has a pin: KIND/NAMESPACE/NAME@IDENTITY")
	case form.Get("until") == "":
		return nil, fmt.Errorf("want until: a time such as 2026-11-25T12:03:00Z, or %s with why", api.SteerRelease)
	}
	if pin := form.Get("pin"); pin != "" {
		object, identity, _ := strings.Cut(pin, "@")
		form.Set("object", object)
		form.Set("of", "version "+identity)
	}
	return form, nil
}
