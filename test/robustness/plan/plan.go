// Package plan defines what happens in a run: its members, the faults with their times and places, the actions of operators. A
// plan follows from a seed and a size; it is data, so that it can be stored, repeated, and reduced.
package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
)

// APIName is the name of the API in links.
const APIName = "api"

// Plan describes a run.
type Plan struct {
	Seed     uint64        `json:"seed"`
	Storm    time.Duration `json:"storm"`    // duration of the changes and faults
	Patience time.Duration `json:"patience"` // maximum time for the members to agree afterwards
	Interval time.Duration `json:"interval"` // between two reads of a server, and two requests of a sidecar
	Asking   time.Duration `json:"asking"`   // between two requests of a client
	Timeout  time.Duration `json:"timeout"`  // of a request
	Hold     time.Duration `json:"hold"`     // of the guard
	Window   time.Duration `json:"window"`   // of the guard
	MaxLoss  float64       `json:"max_loss"` // of the guard
	// KeepTakeovers makes servers keep objects that take requests of other namespaces.
	KeepTakeovers bool `json:"keep_takeovers,omitempty"`
	// Soak gives each server a canary.
	Soak time.Duration `json:"soak,omitempty"`
	// Trial gives each server a trial proxy.
	Trial bool    `json:"trial,omitempty"`
	Rate  float64 `json:"rate"` // writes to the API per second
	Apps  int     `json:"apps"` // services with a route
	// Scale is the size of an additional cluster: 1 is the one of package scale. It does not change, and the history does not
	// contain it.
	Scale   float64          `json:"scale,omitempty"`
	Mass    time.Duration    `json:"mass"` // between the repair of a mass delete and the next one; 0 means none
	Members []history.Member `json:"members"`
	Faults  []Fault          `json:"faults"`
	Steps   []Step           `json:"steps"` // actions of operators
}

// Fault is one fault of a plan.
type Fault struct {
	From time.Duration `json:"from"` // since the storm began
	For  time.Duration `json:"for"`  // 0 for a fault that strikes once
	Name string        `json:"name"`
	// Link is "asker>asked", or the name of a member for faults of processes.
	Link   string        `json:"link"`
	Bytes  int           `json:"bytes,omitempty"`
	Delay  time.Duration `json:"delay,omitempty"`
	Status int           `json:"status,omitempty"`
	Share  float64       `json:"share,omitempty"`
	Path   string        `json:"path,omitempty"`
	Point  string        `json:"point,omitempty"` // of a kill: what to wait for
}

// Args returns the details, for people.
func (f Fault) Args() string {
	var out []string
	add := func(ok bool, format string, v any) {
		if ok {
			out = append(out, fmt.Sprintf(format, v))
		}
	}
	add(f.Bytes != 0, "bytes=%d", f.Bytes)
	add(f.Delay != 0, "delay=%v", f.Delay)
	add(f.Status != 0, "status=%d", f.Status)
	add(f.Share != 0, "share=%.2f", f.Share)
	add(f.Path != "", "path=%s", f.Path)
	add(f.Point != "", "point=%s", f.Point)
	return strings.Join(out, " ")
}

// Step is an action of an operator.
type Step struct {
	At     time.Duration `json:"at"`
	Name   string        `json:"name"` // accept or mode
	Member string        `json:"member"`
	Mode   string        `json:"mode,omitempty"`
}

// Names of steps.
const (
	Accept = "accept" // whatever the member holds at that time
	Mode   = "mode"
)

// Link returns the name of a connection.
func Link(asker, asked string) string { return asker + ">" + asked }

// Member returns the member with a name.
func (p *Plan) Member(name string) (history.Member, bool) {
	i := slices.IndexFunc(p.Members, func(m history.Member) bool { return m.Name == name })
	if i < 0 {
		return history.Member{}, false
	}
	return p.Members[i], true
}

// ReadsAPI reports whether a member reads the API.
func ReadsAPI(m history.Member) bool { return m.Kind == history.Server || m.Kind == history.Sidecar }

// Links returns all connections of the plan.
func (p *Plan) Links() []string {
	var out []string
	for _, m := range p.Members {
		if ReadsAPI(m) {
			out = append(out, Link(m.Name, APIName))
		}
		for _, u := range m.Upstreams {
			out = append(out, Link(m.Name, u))
		}
		if peer := p.Peer(m); peer != "" {
			out = append(out, Link(m.Name, peer))
		}
	}
	return out
}

// Peer returns the replica that a server asks when it starts without a last-known-good file: the next one; empty if it is alone.
func (p *Plan) Peer(m history.Member) string {
	var servers []string
	for _, o := range p.Members {
		if o.Kind == history.Server {
			servers = append(servers, o.Name)
		}
	}
	i := slices.Index(servers, m.Name)
	if i < 0 || len(servers) < 2 {
		return ""
	}
	return servers[(i+1)%len(servers)]
}

// Load reads a plan from a file.
func Load(path string) (*Plan, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var p Plan
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("plan %s: %w", path, err)
	}
	return &p, nil
}

// Save writes the plan to a file.
func (p *Plan) Save(path string) error {
	data, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}
