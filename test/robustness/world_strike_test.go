package robustness

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/test/robustness/faultproxy"
	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/plan"
)

// Strike applies a fault, and returns when it is over: links work again, and processes run. It returns early if ctx ends. It does
// not restore the API: the goroutine that changes the API does that.
func (w *World) Strike(ctx context.Context, f plan.Fault) error {
	from := w.rec.Now()
	end, err := w.begin(ctx, f)
	if err != nil {
		return fmt.Errorf("fault %s on %s: %w", f.Name, f.Link, err)
	}
	if end == nil {
		return nil // it is not possible here
	}
	sleep(ctx, f.For-(w.rec.Now()-from))
	err = end()
	w.rec.Fault(history.Fault{From: from, To: w.rec.Now(), Name: f.Name, Link: f.Link, Args: f.Args()})
	return err
}

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// begin starts a fault and returns the function that ends it; nil if the fault is not possible here.
func (w *World) begin(ctx context.Context, f plan.Fault) (end func() error, err error) {
	quiet := func(end func()) func() error {
		return func() error { end(); return nil }
	}
	if asker, _, ok := strings.Cut(f.Link, ">"); ok {
		if slices.Contains(APIFaults(), f.Name) {
			end, err := w.API.Inject(asker, APIFault{Name: f.Name, Status: f.Status, Path: f.Path})
			return quiet(end), err
		}
		p := w.proxies[f.Link]
		if p == nil {
			return nil, fmt.Errorf("no such link")
		}
		end, err := p.Inject(faultproxy.Fault{Name: f.Name, Bytes: f.Bytes, Delay: f.Delay, Status: f.Status, Share: f.Share})
		return quiet(end), err
	}
	p := w.Processes[f.Link]
	if p == nil {
		return nil, fmt.Errorf("no such process")
	}
	switch f.Name {
	case plan.Kill:
		return w.kill(ctx, p, f), nil
	case plan.Freeze:
		p.Stop()
		return quiet(p.Continue), nil
	case plan.Partition:
		return quiet(w.partition(f.Link)), nil
	case plan.NoFiles:
		return w.noFiles(p), nil
	case plan.DiskFull:
		return w.fill(p), nil
	case plan.ReadOnly:
		return w.readOnly(p), nil
	default:
		return nil, fmt.Errorf("no such fault")
	}
}

// kill kills the process: at once, or when it reaches a point; if it does not reach it in the time of the fault, it is killed
// anyway. It is restarted when the fault ends.
func (w *World) kill(ctx context.Context, p *Process, f plan.Fault) func() error {
	switch f.Point {
	case plan.AtOnce:
		p.Kill("")
	default:
		t := &trap{p.Name, f.Point, make(chan struct{})}
		w.mu.Lock()
		w.traps = append(w.traps, t)
		w.mu.Unlock()
		stop := func() {}
		if f.Point == plan.WhileWrites {
			stop = w.watchWrites(p)
		}
		timer := time.NewTimer(f.For)
		select {
		case <-t.sprung:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		stop()
		w.mu.Lock()
		w.traps = slices.DeleteFunc(w.traps, func(other *trap) bool { return other == t })
		w.mu.Unlock()
		p.Kill("") // if it has not reached the point
	}
	return func() error {
		p.Gone()
		return p.Start()
	}
}

// spring kills the process of a member if a kill is waiting for the point.
func (w *World) spring(member, point string) {
	w.mu.Lock()
	i := slices.IndexFunc(w.traps, func(t *trap) bool { return t.member == member && t.point == point })
	if i < 0 {
		w.mu.Unlock()
		return
	}
	t := w.traps[i]
	w.traps = slices.Delete(w.traps, i, i+1)
	w.mu.Unlock()
	w.Processes[member].Kill(point)
	close(t.sprung)
}

// seen handles events of processes.
func (w *World) seen(e history.Event) {
	switch e.Name {
	case "held", "kept":
		w.spring(e.Member, plan.HoldBegins)
	case "released":
		w.spring(e.Member, plan.HoldEnds)
	}
}

// partition cuts a member off.
func (w *World) partition(member string) (end func()) {
	var ends []func()
	for link, p := range w.proxies {
		asker, asked, _ := strings.Cut(link, ">")
		if asker != member && asked != member || strings.HasPrefix(asker, "p-") {
			continue
		}
		if end, err := p.Inject(faultproxy.Fault{Name: faultproxy.Stall}); err == nil {
			ends = append(ends, end)
		}
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// SetMode changes the mode of a sidecar, as an operator does.
func (w *World) SetMode(member, mode string) error {
	path := filepath.Join(w.Processes[member].Folder, "mode")
	if err := os.WriteFile(path+".new", []byte(mode), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Accept accepts the table that a member holds back, as an operator does. It does nothing if no table is held.
func (w *World) Accept(ctx context.Context, member string) {
	p := w.Processes[member]
	digest := w.held(ctx, p)
	if digest == "" {
		return
	}
	query := url.Values{"digest": {digest}, "by": {"operator"}, "why": {"seeded"}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://pod/guard/accept?"+query.Encode(), nil)
	if err != nil {
		return
	}
	at := w.rec.Now()
	resp, err := p.operator().RoundTrip(r)
	if err != nil {
		return // killed or frozen meanwhile
	}
	_ = resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		w.rec.Event(history.Event{At: at, Member: member, Name: "accept", Args: digest})
	}
}
