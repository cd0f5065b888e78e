package fleet_test

import (
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/fleet"
)

var start = time.Unix(1_800_000_000, 0)

// replica is the View of a replica that serves table n, published n seconds after the start.
func replica(host string, n int, clients ...fleet.Client) *fleet.Clients {
	v := &fleet.Clients{Time: start.Add(100 * time.Second), Clients: clients}
	t := &fleet.Table{Digest: name(n).Digest, Revision: uint64(n), Since: start.Add(time.Duration(n) * time.Second)}
	v.Table = t
	v.Replicas = []fleet.Replica{{Name: host, Instance: host, Self: true, Table: t, Clients: len(clients)}}
	for i := n; i > 0; i-- {
		v.Tables = append(v.Tables, fleet.Table{Digest: name(i).Digest, Revision: uint64(i), Since: start.Add(time.Duration(i) * time.Second)})
	}
	for i := range v.Clients {
		v.Clients[i].Replica = host
	}
	return v
}

// seen is a client that holds table n and was last heard from at that second.
func seen(id string, s fleet.State, n, heard int) fleet.Client {
	return fleet.Client{
		ID: id, Kind: fleet.Proxy, State: s, LastHeard: start.Add(time.Duration(heard) * time.Second),
		Holds: &fleet.Table{Digest: name(n).Digest, Revision: uint64(n), Since: start.Add(time.Duration(n) * time.Second)},
	}
}

func states(v *fleet.Clients) string {
	text := ""
	for _, c := range v.Clients {
		text += fmt.Sprintf("%s=%s@%s ", c.ID, c.State, c.Replica)
	}
	return text
}

func TestNewestSightingCounts(t *testing.T) {
	a := replica("a", 5, seen("moved", fleet.Silent, 4, 10), seen("here", fleet.Current, 5, 90), seen("gone", fleet.Silent, 3, 20))
	b := replica("b", 5, seen("moved", fleet.Current, 5, 95), seen("gone", fleet.Silent, 3, 10), seen("there", fleet.Behind, 4, 90))
	v := fleet.Merge(a, []fleet.Answer{
		{Address: "10.0.0.2:9911", Clients: b}, {Address: "10.0.0.3:9911", Err: errors.New("no answer in time")},
		{Address: "10.0.0.1:9911", Clients: replica("a", 5)}, {Address: "10.0.0.4:9911", Clients: &fleet.Clients{}},
	}, fleet.Query{})
	if got, want := states(v), "there=behind@b gone=silent@a here=current@a moved=current@b "; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if v.Counts != (fleet.Counts{Current: 2, Behind: 1, Silent: 1}) || v.Total != 4 || v.Matched != 4 || v.Truncated {
		t.Errorf("%+v", v)
	}
	got := ""
	for _, r := range v.Replicas {
		got += fmt.Sprintf("%s %s %v %q; ", r.Name, r.Address, r.Self, r.Error)
	}
	if want := `a  true ""; b 10.0.0.2:9911 false ""; 10.0.0.3:9911 10.0.0.3:9911 false "no answer in time"; ` +
		`10.0.0.4:9911 10.0.0.4:9911 false "its answer names no replica"; `; got != want {
		t.Errorf("replicas %s", got)
	}
}

func TestClientsOfAReplicaThatLagsAreBehind(t *testing.T) {
	lagging := replica("a", 3, seen("with a", fleet.Current, 3, 90), seen("ahead", fleet.Current, 5, 90), seen("zone", fleet.Current, 99, 90))
	v := fleet.Merge(lagging, []fleet.Answer{{Address: "b", Clients: replica("b", 5)}}, fleet.Query{})
	if got, want := states(v), "with a=behind@a zone=behind@a ahead=current@a "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if c := v.Clients[0]; c.BehindVersions != 2 || c.BehindSeconds != 96 {
		t.Errorf("%d versions and %v s behind, want 2 and 96: since version 4", c.BehindVersions, c.BehindSeconds)
	}
}

func TestReportCountsMoreThanWhatWasSent(t *testing.T) {
	sent := seen("p", fleet.Current, 5, 90) // as seen by the replica that has its stream
	told := seen("p", fleet.Rejected, 4, 80)
	told.Reported, told.Reason, told.BehindVersions = start.Add(80*time.Second), "guard: no", 1
	v := fleet.Merge(replica("a", 5, sent), []fleet.Answer{{Address: "b", Clients: replica("b", 5, told)}}, fleet.Query{})
	if c := v.Clients[0]; c.State != fleet.Rejected || c.Reason != "guard: no" || c.Holds.Revision != 4 || c.BehindVersions != 1 || c.Replica != "a" {
		t.Errorf("%+v", c)
	}
	sent.Holds.Since = start.Add(85 * time.Second) // after the client reported that
	v = fleet.Merge(replica("a", 5, sent), []fleet.Answer{{Address: "b", Clients: replica("b", 5, told)}}, fleet.Query{})
	if c := v.Clients[0]; c.State != fleet.Current || c.Reason != "" {
		t.Errorf("%+v", c)
	}
}

func TestClientsOfRelaysAreDetails(t *testing.T) {
	relay := seen("relay-0", fleet.Current, 5, 90)
	relay.Kind = fleet.RelayKind
	root := replica("a", 5, relay)
	root.Relays = []fleet.Relay{{ID: "relay-0", Counts: fleet.Counts{Silent: 1}, Total: 1, State: fleet.Current}}
	below := replica("relay-0", 5, seen("leaf", fleet.Silent, 5, 10))
	below.Replicas[0].Relay = true
	other := replica("b", 5)
	other.Relays = []fleet.Relay{{ID: "relay-0", Total: 9, Heard: start}}
	below.Counts, below.Time = fleet.Counts{Silent: 1}, start.Add(time.Second)
	v := fleet.Merge(root, []fleet.Answer{{Address: "z", Clients: other}, {Address: "r", Clients: below}}, fleet.Query{})
	if got, want := states(v), "leaf=silent@relay-0 relay-0=current@a "; got != want || v.Clients[0].Relay != "relay-0" {
		t.Errorf("got %s, want %s", got, want)
	}
	if v.Total != 1 || len(v.Relays) != 1 || !v.Relays[0].Details || v.Relays[0].Total != 1 {
		t.Errorf("%+v", v)
	}
}

func TestQueries(t *testing.T) {
	ask := func(query string) (*fleet.Clients, error) {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		q, err := fleet.ParseQuery(values)
		if err != nil {
			return nil, err
		}
		one, two := seen("one", fleet.Behind, 4, 90), seen("two", fleet.Current, 5, 90)
		one.Zone, one.Version, one.Node = "z", "v", "n"
		return fleet.Merge(replica("a", 5, one, two), nil, q), nil
	}
	for query, want := range map[string]string{
		"": "one=behind@a two=current@a ", "state=behind": "one=behind@a ", "zone=z&version=v&node=n": "one=behind@a ", "id=two": "two=current@a ",
		"replica=b": "", "kind=sidecar": "", "limit=1": "one=behind@a ", "limit=0": "",
	} {
		v, err := ask(query)
		if err != nil || states(v) != want || v.Total != 2 {
			t.Errorf("%q: %v, %v, want %s", query, v, err, want)
		}
		if truncated := query == "limit=1" || query == "limit=0"; v.Truncated != truncated {
			t.Errorf("%q: truncated %v", query, v.Truncated)
		}
	}
	for _, bad := range []string{"state=x", "kind=x", "limit=-1", "limit=x", "limit=20001"} {
		if _, err := ask(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestGroupsAreBounded(t *testing.T) {
	var clients []fleet.Client
	for i := range 300 {
		c := seen(fmt.Sprint("c", i), fleet.Current, 5, 90)
		c.Zone = fmt.Sprintf("zone-%03d", i/2)
		clients = append(clients, c)
	}
	v := fleet.Merge(replica("a", 5, clients...), nil, fleet.Query{})
	sum := 0
	for _, g := range v.Zones {
		sum += g.Counts.Total()
	}
	if len(v.Zones) != fleet.MaxGroups || v.Zones[0].Name != "zone-000" || sum != 2*fleet.MaxGroups {
		t.Errorf("%d zones, %+v, %d clients", len(v.Zones), v.Zones[0], sum)
	}
}

// TestClientWhoseStreamAndReportsReachDifferentReplicas: it is never silent while one of them hears it in time, at any moment of a
// minute, and silent soon after both hear nothing.
func TestClientWhoseStreamAndReportsReachDifferentReplicas(t *testing.T) {
	a, b := newWorld(fleet.Config{Name: "a"}), newWorld(fleet.Config{Name: "b"})
	a.publish(1)
	b.publish(1)
	at := a.now
	who := identity("p")
	b.Saw(fleet.Sighting{Identity: who, Address: address(1), Holds: name(1), Stream: etagcache.StreamOpened})
	state := func() fleet.State {
		v := fleet.Merge(a.Clients(), []fleet.Answer{{Address: "10.0.0.2:9911", Clients: b.Clients()}}, fleet.Query{})
		if len(v.Clients) != 1 {
			t.Fatalf("%d clients", len(v.Clients))
		}
		return v.Clients[0].State
	}
	for half := range 120 {
		now := at.Add(time.Duration(half) * time.Second / 2)
		a.now, b.now = now, now
		if half%20 == 0 { // the connection of the reports goes to the other replica
			a.report("p", fleet.Report{Holds: name(1)})
		}
		if half%30 == 0 {
			b.Saw(fleet.Sighting{Identity: who, Address: address(1), Holds: name(1), Stream: etagcache.StreamWritten})
		}
		if s := state(); s != fleet.Current {
			t.Errorf("%s after %v", s, now.Sub(at))
		}
	}
	a.now, b.now = at.Add(2*time.Minute), at.Add(2*time.Minute)
	if s := state(); s != fleet.Silent {
		t.Errorf("%s although nothing was heard for a minute", s)
	}
}
