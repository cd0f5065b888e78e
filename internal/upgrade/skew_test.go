package upgrade_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// neighbours calls a test with both orders of the two versions. Without the previous version it does nothing, and
// TestMain has already reported that.
func neighbours(t *testing.T, test func(t *testing.T, one, other *programs)) {
	t.Helper()
	if previous == nil {
		return
	}
	t.Run("previous and current", func(t *testing.T) { t.Parallel(); test(t, previous, current) })
	t.Run("current and previous", func(t *testing.T) { t.Parallel(); test(t, current, previous) })
}

// TestVersionsServeEachOther runs a root of one version. Below it are a relay and sidecars of the other version, and
// below the relay sidecars of the first. The commands query servers of the opposite version.
func TestVersionsServeEachOther(t *testing.T) {
	t.Parallel() // it spends most of its time waiting
	neighbours(t, func(t *testing.T, one, other *programs) {
		manifests := shop(t)
		root := one.server(t, t.TempDir(), "--manifests="+manifests)
		relay := other.server(t, t.TempDir(), "--upstream="+root.main)
		var sidecars []*process
		for _, transport := range []string{"stream", "poll"} {
			sidecars = append(sidecars,
				other.sidecar(t, t.TempDir(), "below-root-"+transport, root.main, "--transport="+transport),
				one.sidecar(t, t.TempDir(), "below-relay-"+transport, relay.main, "--transport="+transport))
		}
		first := root.awaitRoute("kube_rg__shop__cart__")
		relay.awaitTable("the relay has the first table", first)
		for _, s := range sidecars {
			s.awaitTable("a sidecar has the first table", first)
		}
		addIngress(t, manifests, "added")
		second := root.awaitRoute("kube_shop__added__")
		relay.awaitTable("the relay has the second table", second)
		for _, s := range sidecars {
			s.awaitTable("a sidecar has the second table", second)
			s.wantDeltas()
		}
		wantSameETag(t, root, relay)
		root.wantFleet(map[string]string{"below-root-stream": other.name, "below-root-poll": other.name}, 2)
		relay.wantFleet(map[string]string{"below-relay-stream": one.name, "below-relay-poll": one.name}, 0)
		root.wantAnswers(other, "below-root-stream")
		relay.wantAnswers(one, "below-relay-stream")
		wantHeldAndAccepted(t, other, root, manifests, second)
	})
}

// wantDeltas checks that the sidecar has applied a delta, and no full table after the first: each version accepts the
// deltas of the other.
func (p *process) wantDeltas() {
	p.t.Helper()
	until(p.t, "a delta", func() error {
		text, _, err := get(p.support + "/metrics")
		if err != nil {
			return err
		}
		if !regexp.MustCompile(`(?m)^dataplane_deltas_total\{result="applied"\} [1-9]`).MatchString(text) {
			return errors.New("none applied")
		}
		for _, line := range strings.Split(text, "\n") {
			if (strings.HasPrefix(line, `dataplane_deltas_total{result="failed"}`) || strings.HasPrefix(line, "dataplane_verify_failures_total")) && !strings.HasSuffix(line, " 0") {
				return errors.New(line)
			}
		}
		return nil
	})
}

// wantSameETag checks that clients can move between root and relay without downloading anything.
func wantSameETag(t *testing.T, root, relay *process) {
	t.Helper()
	_, a, errA := get(root.main + "/routes")
	_, b, errB := get(relay.main + "/routes")
	if err := errors.Join(errA, errB); err != nil || a.Get("Etag") != b.Get("Etag") || a.Get("Etag") == "" {
		t.Errorf("ETags %q and %q, %v", a.Get("Etag"), b.Get("Etag"), err)
	}
}

// wantFleet checks that a server accepts the reports of its clients, by name and version, and that the root accepts
// those of the relay.
func (p *process) wantFleet(clients map[string]string, behindRelay int) {
	p.t.Helper()
	until(p.t, "the clients", func() error {
		text, _, err := get(p.support + "/clients")
		if err != nil {
			return err
		}
		var fleet struct {
			Relays  []struct{ Counts map[string]int }
			Clients []struct{ ID, State, Version, Reported string }
		}
		if err := json.Unmarshal([]byte(text), &fleet); err != nil {
			return err
		}
		found := map[string]string{} // this test also requests tables, and so is another client
		for _, c := range fleet.Clients {
			if clients[c.ID] != "" && c.State == "current" && c.Reported != "" {
				found[c.ID] = c.Version
			}
		}
		if !maps.Equal(found, clients) {
			return fmt.Errorf("found %v, want %v in %s", found, clients, text)
		}
		if behindRelay > 0 && (len(fleet.Relays) != 1 || fleet.Relays[0].Counts["current"] != behindRelay) {
			return fmt.Errorf("relays %+v", fleet.Relays)
		}
		return nil
	})
}

// wantAnswers runs the read-only commands. client is a client that the server knows.
func (p *process) wantAnswers(asks *programs, client string) {
	p.t.Helper()
	for _, command := range []struct {
		args []string
		want string
	}{
		{[]string{"status", p.support}, "healthy"},
		{[]string{"clients", p.support}, client},
		{[]string{"held", p.support}, "nothing is held"},
		{[]string{"diff", p.main + "/routes", p.main + "/routes"}, "same: "},
		{[]string{"match", "http://added.example.org/", p.main + "/routes"}, "kube_shop__added__"},
	} {
		out, code := asks.ask(p.t, command.args...)
		// This test is a client as well, which falls silent, and the command reports that.
		fine := code == 0 || command.args[0] == "clients" && code == 1
		if !fine || !strings.Contains(out, command.want) {
			p.t.Errorf("%s: routesrv %s: exit status %d, want %q in\n%s", asks.name, strings.Join(command.args, " "), code, command.want, out)
		}
	}
}

// wantHeldAndAccepted removes most objects. The server holds the table back until the command of the other version
// accepts it.
func wantHeldAndAccepted(t *testing.T, asks *programs, root *process, manifests, before string) {
	t.Helper()
	for _, name := range []string{"cart.yaml", "added.yaml"} {
		if err := os.Remove(filepath.Join(manifests, name)); err != nil {
			t.Fatal(err)
		}
	}
	var digest string
	until(t, "a held table", func() error {
		out, code := asks.ask(t, "held", root.support)
		found := regexp.MustCompile(`(?m)^digest: ([0-9a-f]{64})$`).FindStringSubmatch(out)
		if code != 1 || found == nil {
			return fmt.Errorf("exit status %d: %s", code, out)
		}
		digest = found[1]
		return nil
	})
	if got, _, err := get(root.main + "/routes"); err != nil || got != before {
		t.Errorf("the table is not held back: %v\n%s", err, got)
	}
	out, code := asks.ask(t, "accept", root.support, digest, "--by", "a test", "--why", "the shop moved", "--yes")
	if code != 0 {
		t.Fatalf("routesrv accept: exit status %d\n%s", code, out)
	}
	until(t, "the accepted table", func() error {
		got, _, err := get(root.main + "/routes")
		if err == nil && strings.Contains(got, "kube_shop__added__") {
			err = errors.New("still the table from before")
		}
		return err
	})
}
