package server_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/routesrv/routesrv/app/server"
)

// observer asks a server for its table all the time, as a proxy does, and remembers for which hosts a table had no backend.
type observer struct {
	stop   chan struct{}
	done   sync.WaitGroup
	tables int
	lost   string // the first answer that lacked a host
}

// observe begins to ask. hosts are those that must be answered in every table.
func (f *fixture) observe(hosts []string) *observer {
	o := &observer{stop: make(chan struct{})}
	o.done.Go(func() {
		for {
			select {
			case <-o.stop:
				return
			default:
			}
			resp, err := f.client.Get(f.scheme + "://" + f.main + "/routes")
			if err != nil {
				o.lost = err.Error()
				return
			}
			body, err := io.ReadAll(resp.Body)
			if resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
				o.lost = fmt.Sprint(resp.Status, err)
				return
			}
			o.tables++
			answered := answeredHosts(string(body))
			for _, h := range hosts {
				if !answered[h] && o.lost == "" {
					o.lost = fmt.Sprintf("no backend for %s in a table of %d hosts", h, len(answered))
				}
			}
		}
	})
	return o
}

// ends stops the observer and returns what it saw.
func (o *observer) ends() (tables int, lost string) {
	close(o.stop)
	o.done.Wait()
	return o.tables, o.lost
}

// answeredHosts returns the first labels of the hosts that a table routes to an address.
func answeredHosts(table string) map[string]bool {
	hosts := make(map[string]bool)
	for line := range strings.Lines(table) {
		_, host, ok := strings.Cut(line, "Host(/^(")
		if name, _, found := strings.Cut(host, "[.]"); ok && found && strings.Contains(line, `"http://10.`) {
			hosts[name] = true
		}
	}
	return hosts
}

// TestARestoreInStepsIsNeverServedInParts: all Ingresses of three hundred are deleted and applied again in steps of one percent. Every
// table that a client gets answers every host, and a pod that is replaced meanwhile is served.
func TestARestoreInStepsIsNeverServedInParts(t *testing.T) {
	const size, step = 300, 3
	for name, set := range map[string]func(*server.Config){
		"empty":          nil,
		"only generated": func(cfg *server.Config) { cfg.Compile.Healthcheck = true },
	} {
		t.Run(name, func(t *testing.T) {
			names := shops(size)
			f := startReading(t, backend("s", "10.2.0.1")+ingresses(names...), true, set)
			whole := f.get("/routes").body
			o := f.observe(names)
			f.breakSource(true)
			f.polled()
			f.delete(names...)
			f.breakSource(false)
			reason := f.held().Reason
			for back := 0; back < size; back += step {
				f.apply(ingresses(names[back : back+step]...))
				if back == size*4/5 {
					f.apply(pod("s", "10.2.0.2"))
					f.replaced("10.2.0.1:", "10.2.0.2:")
				}
				f.polled()
				if back+step == size {
					break
				}
				if g := f.held(); g.Reason != reason || back < size*9/10 && !g.ReleaseAt.IsZero() {
					t.Fatalf("%d of %d are back: %+v", back+step, size, g)
				}
			}
			f.state("")
			if got, want := f.get("/routes").body, strings.ReplaceAll(whole, "10.2.0.1:", "10.2.0.2:"); got != want {
				t.Errorf("after the restore %d bytes are served, want %d", len(got), len(want))
			}
			if tables, lost := o.ends(); lost != "" || tables == 0 {
				t.Errorf("%d tables: %s", tables, lost)
			}
		})
	}
}

// TestARenameWithServicesAndPodsIsServed: a delivery tool gives every Ingress, Service and pod of the cluster a new name, for the same
// hosts. Nothing is held, and live addresses are served.
func TestARenameWithServicesAndPodsIsServed(t *testing.T) {
	names := shops(60)
	objects := func(prefix, address string) string {
		var all strings.Builder
		for _, n := range names {
			all.WriteString(backend(prefix+n, address) + strings.Replace(toward(n, prefix+n), "{name: "+n+", namespace", "{name: "+prefix+n+", namespace", 1))
		}
		return all.String()
	}
	f := startReading(t, objects("blue-", "10.2.0.1"), true, nil)
	o := f.observe(names)
	f.breakSource(true)
	f.polled()
	for _, n := range names {
		f.delete("blue-" + n)
		f.deleteKind("Service", "shop", "blue-"+n)
		f.deleteKind("EndpointSlice", "shop", "blue-"+n+"-1")
	}
	f.apply(objects("green-", "10.2.0.2"))
	f.breakSource(false)
	f.replaced("10.2.0.1:", "10.2.0.2:")
	f.state("")
	if g := f.guard(); g.Held || g.Last != nil {
		t.Errorf("held: %+v", g)
	}
	if tables, lost := o.ends(); lost != "" || tables == 0 {
		t.Errorf("%d tables: %s", tables, lost)
	}
}
