package publish_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish"
)

// next makes the Publisher of the next process. The previous one was killed, so it has flushed nothing.
func next(t *testing.T, path string) *publish.Publisher {
	t.Helper()
	synctest.Wait()          // what the previous process wrote is on the disk
	t.Cleanup(synctest.Wait) // and what this one writes, before the folder is removed
	g := filePublisher(t, publish.FileConfig{Path: path})
	g.Boot(1<<20, nil)
	return g
}

// TestAHoldOutlivesItsProcess: a cluster is restored in steps, and the process is killed after each. Only the whole is served.
func TestAHoldOutlivesItsProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "table.eskip")
		whole := tableOf(t, 100, 1)
		g := next(t, path)
		g.Begin().Offer(offered(whole))
		g.Begin().Offer(offered(tableOf(t, 10, 2)))
		if g.Held() == nil {
			t.Fatal("the loss is not held")
		}
		begun := g.Holding().Since
		for back := 20; back < 100; back += 10 {
			g = next(t, path)
			if o := g.Begin().Offer(offered(tableOf(t, back, uint64(back)))); o.Result != publish.Held || !g.Table().Equal(whole) {
				t.Fatalf("%d of 100 are back: result %v, %d routes are served", back, o.Result, g.Table().Len())
			}
			if s := g.Holding(); s.Reason != guard.RoutesLost || !s.Since.Equal(begun) {
				t.Errorf("%d of 100 are back: %+v, want a hold since %v", back, s, begun)
			}
			g.Tend()
			time.Sleep(time.Second)
		}
		g = next(t, path)
		if o := g.Begin().Offer(offered(tableOf(t, 100, 100))); o.Result != publish.Unchanged {
			t.Errorf("all are back: result %v", o.Result)
		}
		// The hold has ended, also for the next process.
		g = next(t, path)
		if o := g.Begin().Offer(offered(tableOf(t, 60, 101))); o.Result != publish.Published {
			t.Errorf("a loss below the limit: result %v, %+v", o.Result, g.Holding())
		}
	})
}

// TestAnAcceptedHoldStaysEnded: the next process compares with the accepted table only.
func TestAnAcceptedHoldStaysEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "table.eskip")
		g := next(t, path)
		g.Begin().Offer(offered(tableOf(t, 100, 1)))
		lost := tableOf(t, 10, 2)
		g.Begin().Offer(offered(lost))
		g = next(t, path)
		g.Begin().Offer(offered(lost))
		if _, err := g.Accept(publish.Acceptance{Digest: lost.Digest()}); err != nil {
			t.Fatal(err)
		}
		g = next(t, path)
		if o := g.Begin().Offer(offered(tableOf(t, 9, 3))); o.Result != publish.Published {
			t.Errorf("result %v, %+v", o.Result, g.Holding())
		}
	})
}

// TestAListThatCannotBeTrustedIsNotResumed: it is set aside, whichever bit has flipped. The table is loaded, and judged by the limits.
func TestAListThatCannotBeTrustedIsNotResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "table.eskip")
		g := next(t, path)
		g.Begin().Offer(offered(tableOf(t, 100, 1)))
		g.Begin().Offer(offered(tableOf(t, 10, 2)))
		synctest.Wait()
		good, err := os.ReadFile(path + ".kept.json")
		if err != nil || len(good) > 1024 {
			t.Fatalf("%d bytes, error %v", len(good), err)
		}
		held := func(text []byte) bool {
			if err := os.WriteFile(path+".kept.json", text, 0o600); err != nil {
				t.Fatal(err)
			}
			g := filePublisher(t, publish.FileConfig{Path: path})
			g.Boot(1<<20, nil)
			if g.Table() == nil || g.Table().Len() != 100 {
				t.Fatalf("%q: the table is not loaded", text)
			}
			defer synctest.Wait()
			return g.Begin().Offer(offered(tableOf(t, 60, 3))).Result == publish.Held
		}
		if !held(good) {
			t.Error("the hold is not resumed")
		}
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		check := func(name string, text []byte) {
			t.Helper()
			if held(text) {
				t.Errorf("%s: resumed from %q", name, text)
			}
			if aside, err := os.ReadFile(path + ".kept.json.bad"); err != nil || !bytes.Equal(aside, text) {
				t.Errorf("%s: set aside is %q, error %v", name, aside, err)
			}
			if err := os.WriteFile(path, whole, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		check("torn", good[:len(good)-2])
		check("longer", append(slices.Clone(good), 'x'))
		check("empty", nil)
		check("of another program", []byte("a poem\n"))
		for i := 0; i < len(good); i += 7 {
			flipped := slices.Clone(good)
			flipped[i] ^= 1 << (i % 8)
			check(fmt.Sprintf("bit %d of byte %d", i%8, i), flipped)
		}
	})
}

// TestTheListDoesNotDependOnTheTable: without a usable last-known-good table an intact list still keeps what it has.
func TestTheListDoesNotDependOnTheTable(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"missing": os.Remove,
		"damaged": func(path string) error { return os.WriteFile(path, []byte("half a table"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := publish.Config{File: publish.LastKnownGood(t.TempDir())}
			c := newCluster(t, cfg)
			c.read()
			c.remove("shop", 0, 20)
			c.read()
			c.publisher.Flush()
			if err := spoil(cfg.File.Path); err != nil {
				t.Fatal(err)
			}
			c.start(cfg)
			for range 2 {
				c.read()
				c.keeps("after a restart", apps("Ingress", "shop", 0, 20)...)
				c.serves("after a restart", "shop__app_00__", "shop__app_19__", "team__app_00__")
			}
			c.publisher.Flush()
		})
	}
}

// TestACommandThatIsNotDurableFails: on a full disk nothing changes, and the error says so.
func TestACommandThatIsNotDurableFails(t *testing.T) {
	cfg := publish.Config{File: publish.LastKnownGood(filepath.Join(t.TempDir(), "state"))}
	c := newCluster(t, cfg)
	c.read()
	c.remove("shop", 0, 20)
	c.read()
	digest := c.publisher.Holding().Digest
	c.publisher.Flush()
	folder := filepath.Dir(cfg.File.Path)
	if err := errors.Join(os.Rename(folder, folder+".away"), os.WriteFile(folder, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	freeze := publish.Order{Freeze: true, Scope: publish.Scope{Namespace: "team"}}
	if err := c.publisher.Steer(freeze); err == nil || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("freeze: error %v", err)
	}
	c.filter("team/app-00", `setPath("/new")`)
	c.read()
	c.keeps("after a failed command", apps("Ingress", "shop", 0, 20)...)
	c.serves("after a failed command", "shop__app_00__", `setPath("/new")`)
	if _, err := c.publisher.Accept(publish.Acceptance{Digest: digest}); err != nil {
		t.Errorf("an acceptance depends on the disk: %v", err)
	}
	c.keeps("accepted")
	c.publisher.Flush()
	if err := errors.Join(os.Remove(folder), os.Rename(folder+".away", folder)); err != nil {
		t.Fatal(err)
	}
	c.steer(freeze)
	c.start(cfg) // killed right after the command
	if orders, _ := c.publisher.Orders(); len(orders) != 1 || orders[0].Reason != publish.ReasonFreeze {
		t.Errorf("after a restart the orders are %v", orders)
	}
	c.publisher.Flush()
}

// TestAHoldIsWrittenWhenTheDiskRecovers: a write that failed is repeated.
func TestAHoldIsWrittenWhenTheDiskRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "table.eskip")
		g := next(t, path)
		g.Begin().Offer(offered(tableOf(t, 100, 1)))
		synctest.Wait()
		if err := os.MkdirAll(path+".kept.json/x", 0o700); err != nil {
			t.Fatal(err)
		}
		g.Begin().Offer(offered(tableOf(t, 10, 2)))
		synctest.Wait()
		if err := os.RemoveAll(path + ".kept.json"); err != nil {
			t.Fatal(err)
		}
		g.Begin().Offer(offered(tableOf(t, 10, 3)))
		g = next(t, path)
		if o := g.Begin().Offer(offered(tableOf(t, 60, 3))); o.Result != publish.Held {
			t.Errorf("result %v", o.Result)
		}
	})
}

// TestAnOldFileKeepsNoDeletions: a process that did not run for a day compares with its file, but what teams have deleted meanwhile stays deleted.
// After a minute the same loss is an accident.
func TestAnOldFileKeepsNoDeletions(t *testing.T) {
	for away, keeps := range map[time.Duration]int{time.Minute: 25, 24 * time.Hour: 0} {
		synctest.Test(t, func(t *testing.T) {
			var served map[kube.Ref]kube.Object
			cfg := publish.Config{File: publish.LastKnownGood(t.TempDir()), Changed: func(*kube.Snapshot) (map[kube.Ref]kube.Object, bool) { return served, true }}
			c := newCluster(t, cfg)
			for i := range 100 {
				c.add("big", fmt.Sprintf("app-%02d", i), fmt.Sprintf("10.4.0.%d", i+1))
			}
			c.read()
			c.publisher.Flush()
			time.Sleep(away)
			served = map[kube.Ref]kube.Object{}
			for i := range 25 {
				name := fmt.Sprintf("big/app-%02d", i)
				served[c.ingresses[name].Ref()] = c.ingresses[name]
				delete(c.ingresses, name)
			}
			c.start(cfg)
			c.read()
			if kept := len(c.publisher.Kept()); kept != keeps {
				t.Errorf("after %v %d objects are kept, want %d", away, kept, keeps)
			}
			delete(c.ingresses, "team/app-00")
			if c.read(); keeps == 0 && len(c.publisher.Kept()) > 0 {
				t.Errorf("a later deletion brings back what was lost long ago: %v", c.publisher.Kept())
			}
			c.publisher.Flush()
		})
	}
}
