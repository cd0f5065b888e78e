package poller_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/poller"
)

func TestMessagesAreThoseOfTheReference(t *testing.T) {
	got := []string{
		poller.LogPollingStarted, poller.LogPollingStopped, poller.LogRoutesFetchingFailed, poller.LogRoutesEmpty,
		poller.LogRoutesInitialized, poller.LogRoutesUpdated, poller.LogRoutesNoChange,
	}
	want := []string{
		"starting polling", "polling stopped", "failed to fetch routes", "received empty routes; ignoring",
		"routes initialized", "routes updated", "routes did not change",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// Each step is one poll; the lines are those of the reference.
func TestLogOfEachPoll(t *testing.T) {
	broken := errors.New("list ingresses: connection refused")
	type step struct {
		name   string
		before func(*world)
		want   []string
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"life", []step{
			{"first table", func(*world) {}, []string{"INFO starting polling", "INFO routes initialized", "INFO routes updated"}},
			{"no change", func(*world) {}, []string{}},
			{"change", func(w *world) { w.set("a", "b", "c") }, []string{"INFO routes updated"}},
			{"read again", func(w *world) { w.set("a", "b", "c") }, []string{}},
			{"failure", func(w *world) { w.fail(broken) }, []string{"ERROR failed to fetch routes"}},
			{"after the failure", func(w *world) { w.fail(nil) }, []string{}},
		}},
		{"empty from the start", []step{
			{"first", func(w *world) { w.set() }, []string{"INFO starting polling", "INFO received empty routes; ignoring"}},
			{"second", func(*world) {}, []string{"INFO received empty routes; ignoring"}},
			{"routes", func(w *world) { w.set("a") }, []string{"INFO routes initialized", "INFO routes updated"}},
		}},
		{"empty later", []step{
			{"first", func(*world) {}, []string{"INFO starting polling", "INFO routes initialized", "INFO routes updated"}},
			{"empty", func(w *world) { w.set() }, []string{
				"ERROR suspicious table held back", "INFO received empty routes; ignoring",
			}},
			{"still empty", func(*world) {}, []string{"INFO received empty routes; ignoring"}},
			{"back again", func(w *world) { w.set("a", "b") }, []string{"INFO hold ended: the source shows a table that is fine"}},
			{"no change", func(*world) {}, []string{}},
		}},
		{"held", []step{
			{"first", func(*world) {}, []string{"INFO starting polling", "INFO routes initialized", "INFO routes updated"}},
			{"lost", func(w *world) { w.set("x") }, []string{"ERROR suspicious table held back"}},
			{"still lost", func(*world) {}, []string{}},
			{"fewer lost", func(w *world) { w.set("a", "x") }, []string{}},
			{"all back", func(w *world) { w.set("a", "b", "x") }, []string{
				"INFO hold ended: the source shows a table that is fine", "INFO routes updated",
			}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "a", "b")
				tt.steps[0].before(w)
				p := w.poller(nil)
				stop := w.run(p)
				seen := 0
				for i, s := range tt.steps {
					if i > 0 {
						s.before(w)
						time.Sleep(time.Until(p.Status().NextAttempt))
					}
					synctest.Wait()
					lines := w.log.lines()
					if diff := cmp.Diff(s.want, lines[seen:]); diff != "" {
						t.Errorf("%s (-want +got):\n%s", s.name, diff)
					}
					seen = len(lines)
				}
				stop()
				if diff := cmp.Diff([]string{"INFO polling stopped"}, w.log.lines()[seen:]); diff != "" {
					t.Errorf("stop (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestLinesHaveTheFieldsOfTheReference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		cause := errors.New("list ingresses: connection refused")
		stop := w.run(w.poller(nil))
		synctest.Wait()
		w.fail(cause)
		polled(3 * time.Second)
		stop()

		if got := w.log.find(poller.LogPollingStarted)[0].texts("timeout", "component"); got != "timeout=3s component=poller" {
			t.Errorf("start: %s", got)
		}
		tab := tableOf(t, "a", "b")
		want := "bytes=33 count=2 hash=" + tab.Digest().String()
		for _, message := range []string{poller.LogRoutesInitialized, poller.LogRoutesUpdated} {
			if got := w.log.find(message)[0].texts("bytes", "count", "hash"); got != want {
				t.Errorf("%s: %s, want %s", message, got, want)
			}
		}
		failed := w.log.find(poller.LogRoutesFetchingFailed)[0]
		if got := failed.texts("error"); got != "error=failed to load cluster state: "+cause.Error() {
			t.Errorf("failure: %s, want the cause wrapped", got)
		}
		if err, ok := failed.attrs["error"].Any().(error); !ok || !errors.Is(err, cause) {
			t.Errorf("the attribute error is %v, want an error that wraps the cause", failed.attrs["error"])
		}
	})
}

func TestChangedRoutesAreLoggedAtDebugLevel(t *testing.T) {
	for _, tt := range []struct {
		name  string
		level slog.Level
		want  []string
	}{
		{"info", slog.LevelInfo, nil},
		{"debug", slog.LevelDebug, []string{
			"Inserted route 1 of 2 op=inserted id=d", "Inserted route 2 of 2 op=inserted id=e",
			"Updated route 1 of 1 op=updated id=b", "Deleted route 1 of 1 op=deleted id=c",
		}},
		{"trace", poller.LevelTrace, []string{
			"Inserted route 1 of 2 op=inserted id=d route=d: * -> <shunt>;",
			"Inserted route 2 of 2 op=inserted id=e route=e: * -> <shunt>;",
			`Updated route 1 of 1 op=updated id=b route=b: Path("/b") -> <shunt>;`,
			"Deleted route 1 of 1 op=deleted id=c route=c: * -> <shunt>;",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "a", "b", "c", "y", "z")
				w.log = newRecorder(tt.level)
				stop := w.run(w.poller(nil))
				synctest.Wait()
				first := len(w.log.lines())
				w.set("a", `b=Path("/b")`, "d", "e", "y", "z")
				polled(3 * time.Second)
				stop()
				var got []string
				for _, rec := range w.log.list[first:] {
					if rec.level >= slog.LevelInfo {
						continue
					}
					text := rec.message + " " + rec.texts("op", "id")
					if _, ok := rec.attrs["route"]; ok {
						text += " " + rec.texts("route")
					}
					got = append(got, text)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("lines (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestPanicIsLoggedWithItsStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		w.onCompile = func() { panic("index out of range") }
		stop := w.run(w.poller(nil))
		synctest.Wait()
		stop()
		got := w.log.find(poller.LogRoutesFetchingFailed)
		if len(got) != 1 || got[0].texts("error", "reason") != "error=panic: index out of range reason=panic" {
			t.Fatalf("log %+v, want one failure with the panic as error", got)
		}
		if stack := got[0].attrs["stack"].String(); !strings.Contains(stack, "TestPanicIsLoggedWithItsStack") {
			t.Errorf("stack without the function that panicked:\n%s", stack)
		}
	})
}
