package publish_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/guard"
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
		begun := g.State().Since
		for back := 20; back < 100; back += 10 {
			g = next(t, path)
			if o := g.Begin().Offer(offered(tableOf(t, back, uint64(back)))); o.Result != publish.Held || !g.Table().Equal(whole) {
				t.Fatalf("%d of 100 are back: result %v, %d routes are served", back, o.Result, g.Table().Len())
			}
			if s := g.State(); s.Reason != guard.RoutesLost || !s.Since.Equal(begun) {
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
			t.Errorf("a loss below the limit: result %v, %+v", o.Result, g.State())
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
			t.Errorf("result %v, %+v", o.Result, g.State())
		}
	})
}

// TestAHoldThatCannotBeTrustedIsNotResumed: the table is loaded, and judged by the limits.
func TestAHoldThatCannotBeTrustedIsNotResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "table.eskip")
		g := next(t, path)
		g.Begin().Offer(offered(tableOf(t, 100, 1)))
		g.Begin().Offer(offered(tableOf(t, 10, 2)))
		synctest.Wait()
		text, err := os.ReadFile(path + ".state")
		if err != nil || len(text) > 1024 {
			t.Fatalf("%d bytes, error %v", len(text), err)
		}
		good := string(text)
		held := func(text string) bool {
			if err := os.WriteFile(path+".state", []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			g := filePublisher(t, publish.FileConfig{Path: path})
			g.Boot(1<<20, nil)
			if g.Table() == nil || g.Table().Len() != 100 {
				t.Fatalf("%q: the table is not loaded", text)
			}
			return g.Begin().Offer(offered(tableOf(t, 60, 3))).Result == publish.Held
		}
		if !held(good) {
			t.Error("the hold is not resumed")
		}
		synctest.Wait()
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"no hold":      strings.Replace(good, `"kept":`, `"told":`, 1),
			"torn":         good[:len(good)-2],
			"half":         good[:len(good)-20] + "\n",
			"reason":       strings.Replace(good, `"reason":"routes_lost"`, `"reason":"storm"`, 1),
			"no beginning": strings.Replace(good, `"since":`, `"until":`, 1),
			"longer":       good + strings.Repeat("x", 4096),
		} {
			if text == good || held(text) {
				t.Errorf("%s: resumed from %q", name, text)
			}
			synctest.Wait()
			if err := os.WriteFile(path, whole, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestAHoldIsWrittenWhenTheDiskRecovers: a write that failed is repeated.
func TestAHoldIsWrittenWhenTheDiskRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "table.eskip")
		g := next(t, path)
		g.Begin().Offer(offered(tableOf(t, 100, 1)))
		synctest.Wait()
		if err := os.Mkdir(path+".state", 0o700); err != nil {
			t.Fatal(err)
		}
		g.Begin().Offer(offered(tableOf(t, 10, 2)))
		synctest.Wait()
		if err := os.Remove(path + ".state"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		g.Tend()
		g = next(t, path)
		if o := g.Begin().Offer(offered(tableOf(t, 60, 3))); o.Result != publish.Held {
			t.Errorf("result %v", o.Result)
		}
	})
}
