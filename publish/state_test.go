package publish_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/publish"
)

// readOn makes a Publisher that serves a table from a file, and confirms it every three seconds for as long. It returns the time of the last
// read, and never flushes: the process is killed.
func readOn(t *testing.T, path string, routes int, long time.Duration) time.Time {
	t.Helper()
	g := filePublisher(t, publish.FileConfig{Path: path})
	g.Boot(1<<20, nil)
	var last time.Time
	for begin := time.Now(); time.Since(begin) <= long; time.Sleep(3 * time.Second) {
		c := offered(tableOf(t, routes, 10))
		last = c.Read.At
		g.Begin().Offer(c)
		g.Tend()
		synctest.Wait()
	}
	return last
}

// TestCrashMakesNoTableLookOld: a table that has not changed for an hour was read a moment ago, also for the process after one that
// was killed, and after that one.
func TestCrashMakesNoTableLookOld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.eskip")
	synctest.Test(t, func(t *testing.T) {
		last := readOn(t, path, 3, time.Hour)
		for range 2 {
			g := filePublisher(t, publish.FileConfig{Path: path})
			g.Boot(1<<20, nil)
			s := g.Served()
			if s == nil || last.Sub(s.Read.At) > 6*time.Second || s.Read.At.After(last) || !s.Stale {
				t.Fatalf("restored %+v, want a read at %v", s, last)
			}
			if f := g.File(); !f.LastRead.Equal(s.Read.At) || !f.Written.IsZero() {
				t.Errorf("status %+v, want the read of the file and no write", f)
			}
			time.Sleep(time.Minute) // the source is away
			g.Tend()
			synctest.Wait()
		}
		if info, err := os.Stat(path + ".state"); err != nil || info.Mode() != 0o600 || info.Size() > 300 {
			t.Errorf("%v, %v: want a small file for its user", info, err)
		}
	})
}

// between returns what follows a prefix, up to the next quote.
func between(t *testing.T, text, prefix string) string {
	t.Helper()
	_, text, found := strings.Cut(text, prefix)
	value, _, closed := strings.Cut(text, `"`)
	if !found || !closed {
		t.Fatalf("no %s in %q", prefix, text)
	}
	return value
}

// TestTimeOfAnotherTableIsNotUsed: nor one in the future, one that is damaged, or a file of somebody else, which is set aside.
func TestTimeOfAnotherTableIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "table.eskip")
		readOn(t, path, 3, time.Minute)
		good, err := os.ReadFile(path + ".state")
		if err != nil {
			t.Fatal(err)
		}
		digest, at := between(t, string(good), `"digest":"`), between(t, string(good), `"read":"`)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		year := time.Now().Format("2006")
		for name, text := range map[string]string{
			"another table":      strings.Replace(string(good), digest, strings.Repeat("0", 64), 1),
			"the future":         strings.ReplaceAll(string(good), year, "2999"),
			"the past":           strings.ReplaceAll(string(good), year, "1999"),
			"no time":            strings.Replace(string(good), at, "yesterday", 1),
			"half":               string(good[:len(good)/2]),
			"of another program": "the only copy\n",
			"too long":           string(good) + strings.Repeat("x", 5000),
		} {
			if err := os.WriteFile(path+".state", []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			g := filePublisher(t, publish.FileConfig{Path: path})
			g.Boot(1<<20, nil)
			if s := g.Served(); s == nil || !strings.Contains(string(whole), s.Read.At.UTC().Format(time.RFC3339Nano)) {
				t.Errorf("%s: restored %+v, want the time in the file itself", name, s)
			}
		}
		if err := os.WriteFile(path+".state", []byte("the only copy\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		readOn(t, path, 3, time.Minute)
		if got, err := os.ReadFile(path + ".state.bad"); err != nil || string(got) != "the only copy\n" {
			t.Errorf("the file of another program has %q, %v", got, err)
		}
	})
}

// TestFileIsWrittenEvery30Seconds: however often the table changes. A crash loses 30 s at most, an orderly end nothing, and a plain file is never
// behind.
func TestFileIsWrittenEvery30Seconds(t *testing.T) {
	for _, plain := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "table.eskip")
			g := filePublisher(t, publish.FileConfig{Path: path, Plain: plain})
			writes := make(map[time.Time]bool)
			begin := time.Now()
			var last publish.Candidate
			for n := 1; time.Since(begin) < 5*time.Minute; n++ {
				last = offered(tableOf(t, n, uint64(n)))
				g.Begin().Offer(last)
				g.Tend()
				synctest.Wait()
				writes[g.File().Written] = true
				if plain {
					time.Sleep(3 * time.Second)
					continue
				}
				crashed := filePublisher(t, publish.FileConfig{Path: path})
				if crashed.Boot(1<<20, nil); crashed.Served() == nil || last.Read.At.Sub(crashed.Served().Read.At) > 30*time.Second {
					t.Fatalf("after %v the file has %+v", time.Since(begin), crashed.Served())
				}
				time.Sleep(3 * time.Second)
			}
			if n := len(writes); !plain && n != 10 || plain && n != 100 {
				t.Errorf("plain %v: %d writes in five minutes", plain, n)
			}
			g.Flush()
			if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), string(last.Table.Text())) {
				t.Errorf("plain %v: at the end the file lacks the last table (%v)", plain, err)
			}
		})
	}
}
