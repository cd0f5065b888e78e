package dataplane_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/dataplane"
)

// slowLog is a log that blocks at the line about tables of clients.
type slowLog struct {
	slog.Handler
	reached chan struct{} // closed at the line
	goOn    chan struct{} // the line waits for it
}

func (slowLog) Enabled(context.Context, slog.Level) bool { return true }
func (l slowLog) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l slowLog) WithGroup(string) slog.Handler          { return l }
func (l slowLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message == dataplane.LogClientOlder {
		close(l.reached)
		<-l.goOn
	}
	return nil
}

// TestARelayEndsAfterItsQuestions: when Run has returned, no part of the relay is running.
func TestARelayEndsAfterItsQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asking{tree: newTree(t)}
		defer a.end()
		a.root = a.tree.root("root")
		a.root.reads(relayTable(t, 10, 30), true)
		cfg := a.fetch("", "root")
		cfg.UpdateMode = dataplane.Poll
		log := slowLog{slog.DiscardHandler, make(chan struct{}), make(chan struct{})}
		cfg.Logger = slog.New(log)
		a.relay = a.relayWith("relay", dataplane.RelayConfig{Fetch: cfg})
		relayAfter(time.Second)
		a.claim(1, 7) // older than the root's table
		relayAfter(time.Minute)
		select {
		case <-log.reached:
		default:
			t.Fatal("no line says that the table of a client is not newer")
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			a.kill("relay")
		}()
		relayAfter(time.Minute)
		select {
		case <-ended:
			t.Error("Run has returned while an answer is being worked on")
		default:
		}
		close(log.goOn)
		<-ended
	})
}
