package server

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/table"
)

func tableOf(t *testing.T, id string) *table.Table {
	t.Helper()
	tab, err := table.New([]table.Route{{ID: id, Text: id + ": * -> <shunt>;"}}, 1, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// newTestCheckpoint gives a checkpoint in the folder, and a function that runs it, which gives another that ends it.
func newTestCheckpoint(t *testing.T, dir string) (c *checkpoint, run func() (stop func())) {
	t.Helper()
	c = newCheckpoint(dir, "cluster", slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	return c, func() func() {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.run(ctx, func() time.Time { return time.Time{} })
		}()
		return func() { cancel(); <-done }
	}
}

func (c *checkpoint) wrote(result string) float64 {
	return testutil.ToFloat64(c.writes.WithLabelValues(result))
}

func TestTablesThatComeFasterThanTheDiskAreWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c, run := newTestCheckpoint(t, dir)
		for range 100 {
			c.save(tableOf(t, "other"))
		}
		c.save(tableOf(t, "last"))
		stop := run()
		synctest.Wait()
		stop()
		if got := c.wrote("ok"); got != 1 {
			t.Errorf("%v writes of 101 tables, want one", got)
		}
		data, err := os.ReadFile(filepath.Join(dir, checkpointFile))
		if err != nil {
			t.Fatal(err)
		}
		if tab, _, err := table.ParseFile(data); err != nil || tab.Routes().Get("last") == nil {
			t.Errorf("error %v, want the last table on disk", err)
		}
	})
}

func TestWriteThatFailedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "gone")
		if err := os.WriteFile(dir, nil, 0o600); err != nil { // no folder can be made there
			t.Fatal(err)
		}
		c, run := newTestCheckpoint(t, dir)
		stop := run()
		c.save(tableOf(t, "a"))
		synctest.Wait()
		time.Sleep(checkpointRetry + time.Second)
		synctest.Wait()
		if ok, failed := c.wrote("ok"), c.wrote("error"); ok != 0 || failed != 2 || c.report().Error == "" {
			t.Errorf("%v writes, %v failures, report %+v: want two failures", ok, failed, c.report())
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(checkpointRetry)
		synctest.Wait()
		if ok := c.wrote("ok"); ok != 1 || c.report().Error != "" {
			t.Errorf("%v writes, report %+v: want one without error", ok, c.report())
		}
		time.Sleep(time.Hour) // and no further ones
		synctest.Wait()
		stop()
		if ok := c.wrote("ok"); ok != 1 {
			t.Errorf("%v writes of one table, want one", ok)
		}
	})
}
