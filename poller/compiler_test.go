package poller_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/publish"
)

func TestNewCompilerRefusesWhatCannotWork(t *testing.T) {
	_, err := poller.NewCompiler(rules.Options{IngressClass: "("}, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "compile options: ") {
		t.Errorf("error %v", err)
	}
}

func TestPublishesWhatTheClusterCompilesTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, rules.Options{}, service, ingress("a"))
		stop := f.run()
		f.apply(ingress("b"))
		f.poll()
		f.poll() // no change
		stop()
		if len(f.published) != 2 {
			t.Fatalf("%d tables, want 2", len(f.published))
		}
		for i, want := range []string{"a", "b"} {
			if _, err := eskip.Parse(string(f.published[i].Text())); err != nil {
				t.Errorf("table %d: %v", i, err)
			}
			if text := string(f.published[i].Text()); !strings.Contains(text, `kube_shop__`+want+`__`) {
				t.Errorf("table %d has no route of Ingress %s:\n%s", i, want, text)
			}
		}
	})
}

func TestHeldTableCanBeAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, rules.Options{}, service, ingress("a"), ingress("b"), ingress("c"))
		stop := f.run()
		f.cluster.Delete(kube.Ref{Kind: kube.KindIngress, Namespace: "shop", Name: "a"})
		f.cluster.Delete(kube.Ref{Kind: kube.KindIngress, Namespace: "shop", Name: "b"})
		f.poll()
		state := f.publisher.Holding()
		if !state.Held || len(f.published) != 1 {
			t.Fatalf("guard %+v after %d tables, want the second one held", state, len(f.published))
		}
		if _, err := f.poller.Accept(publish.Acceptance{Digest: state.Digest}); err != nil || len(f.published) != 2 {
			t.Errorf("error %v after %d tables, want the second one published", err, len(f.published))
		}
		stop()
	})
}

func TestAddressesAreThoseOfTheLastRead(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    rules.Options
		want []string // sorted as strings; only ready ones
	}{
		{"endpoints", rules.Options{}, []string{"10.2.0.10", "10.2.0.9"}},
		{"endpoint slices", rules.Options{EndpointSlices: true}, []string{"10.2.0.7", "10.2.0.9"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, tt.o, service)
				if got, ok := f.compiler.Addresses("shop", "s"); ok {
					t.Errorf("addresses %v before the first read, want none to be known", got)
				}
				stop := f.run() // there is no route, but the addresses are known all the same
				got, ok := f.compiler.Addresses("shop", "s")
				if diff := cmp.Diff(tt.want, got); diff != "" || !ok {
					t.Errorf("known %v (-want +got):\n%s", ok, diff)
				}
				if got, ok := f.compiler.Addresses("shop", "other"); len(got) != 0 || !ok {
					t.Errorf("addresses %v (known %v) of a service that is not there, want none", got, ok)
				}
				f.read = func(context.Context, kube.ReadOptions) (*kube.Snapshot, error) {
					return nil, errors.New("list services: 500")
				}
				f.poll()
				if again, ok := f.compiler.Addresses("shop", "s"); len(again) != 2 || !ok {
					t.Errorf("addresses %v (known %v) after a failed read, want the previous ones", again, ok)
				}
				stop()
			})
		})
	}
}

// A nil object stands for anything that makes the compiler panic.
func TestCompilerThatPanicsIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, rules.Options{}, service, ingress("a"))
		stop := f.run()
		want := f.published[0].Digest()
		f.read = func(ctx context.Context, o kube.ReadOptions) (*kube.Snapshot, error) {
			s, err := f.cluster.Read(ctx, o)
			if err == nil {
				s.Ingresses = append(s.Ingresses, nil)
			}
			return s, err
		}
		f.poll()
		if s := f.poller.Status(); s.Failures != 1 || len(f.published) != 1 {
			t.Errorf("status %+v after %d tables, want a failure and the old table", s, len(f.published))
		}
		if got, ok := f.compiler.Addresses("shop", "s"); len(got) != 2 || !ok {
			t.Errorf("addresses %v, want those of the read, which was complete", got)
		}
		f.read = nil
		f.apply(ingress("b"))
		f.poll()
		f.cluster.Delete(kube.Ref{Kind: kube.KindIngress, Namespace: "shop", Name: "b"})
		f.poll()
		stop()
		if s := f.poller.Status(); s.Failures != 0 || len(f.published) != 3 || f.published[2].Digest() != want {
			t.Errorf("status %+v after %d tables, want the first table again", s, len(f.published))
		}
	})
}

func TestRecheckReadsAClusterConsistently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, rules.Options{}, service, ingress("a"))
		var asked []bool
		f.read = func(ctx context.Context, o kube.ReadOptions) (*kube.Snapshot, error) {
			asked = append(asked, o.Consistent)
			return f.cluster.Read(ctx, o)
		}
		stop := f.run()
		f.poller.Recheck()
		time.Sleep(2 * time.Second)
		stop()
		if diff := cmp.Diff([]bool{false, true}, asked); diff != "" {
			t.Errorf("reads (-want +got):\n%s", diff)
		}
	})
}
