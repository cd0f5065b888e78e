package source_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster"
	"github.com/routesrv/routesrv/test/kubetest"
)

// asked returns the revisions that each list was asked for since the last call: "-" is a consistent list, "now" the
// question for the current revision that comes before lists that are not.
func asked(t *testing.T, s *kubetest.Server) string {
	t.Helper()
	var out []string
	for _, r := range s.Requests() {
		if r.Path == kubetest.Discovery {
			continue
		}
		word := r.Path[strings.LastIndexByte(r.Path, '/')+1:][:3] + ":"
		switch rv, ok := strings.CutPrefix(r.Query, "resourceVersion="); {
		case r.Query == "":
			word += "-"
		case r.Query == "limit=1":
			word = "now" // the question for the current revision
		case ok && strings.HasSuffix(rv, "&resourceVersionMatch=NotOlderThan"):
			word += strings.TrimSuffix(rv, "&resourceVersionMatch=NotOlderThan")
		default:
			t.Errorf("query %q", r.Query)
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

func TestAsksForWhatIsNotOlderThanWhatItSaw(t *testing.T) {
	server := newServer(t)
	source := newSource(t, cluster.Config{URL: server.Start(t)})
	step := func(want string, revision, newest kube.Revision) {
		t.Helper()
		if got := read(t, source); got.Revision != revision || got.Newest != newest {
			t.Errorf("revisions %d to %d, want %d to %d", got.Revision, got.Newest, revision, newest)
		}
		if d := cmp.Diff(want, asked(t, server)); d != "" {
			t.Errorf("-want +got\n%s", d)
		}
	}
	step("ing:- rou:- ser:- end:-", 100, 100)
	step("now ing:100 rou:100 ser:100 end:100", 100, 100)
	if err := server.Apply("kind: Service\nmetadata: {name: new, namespace: n1}"); err != nil {
		t.Fatal(err)
	}
	step("now ing:101 rou:101 ser:101 end:101", 101, 101)
	step("now ing:101 rou:101 ser:101 end:101", 101, 101)

	// One list is ahead, as it is when nothing else was written to: the snapshot is complete up to the lowest.
	server.SetFault(pathServices, kubetest.Fault{Revision: 105, Times: 1})
	step("now ing:101 rou:101 ser:101 end:101", 101, 105)
	server.SetRevision(106)
	step("now ing:106 rou:106 ser:106 end:106", 106, 106)

	if _, err := source.Read(t.Context(), kube.ReadOptions{Consistent: true}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff("ing:- rou:- ser:- end:-", asked(t, server)); d != "" {
		t.Errorf("consistent read: -want +got\n%s", d)
	}
}

// An API server without progress notifications keeps the cache of an idle kind where it is: asked for the revision of the
// cluster it gives up. Then the lists are held to what they have seen themselves, and the reads go on.
func TestAServerThatCannotReachTheFloorIsAskedForLess(t *testing.T) {
	server := newServer(t)
	log, text := logger()
	source := newSource(t, cluster.Config{URL: server.Start(t), Logger: log})
	read(t, source)
	asked(t, server)
	server.SetRevision(200)
	server.SetFault(pathServices, kubetest.Fault{Stuck: 100})
	if got := read(t, source); got.Revision != 100 || got.Newest != 200 {
		t.Errorf("revisions %d to %d, want 100 to 200", got.Revision, got.Newest)
	}
	if d := cmp.Diff("now ing:200 rou:200 ser:200 ser:100 end:100", asked(t, server)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	read(t, source)
	if d := cmp.Diff("ing:200 rou:200 ser:100 end:200", asked(t, server)); d != "" {
		t.Errorf("the next read: -want +got\n%s", d)
	}
	if strings.Count(text.String(), logNoFloor) != 1 {
		t.Errorf("log\n%s", text)
	}
}

func TestAFailedReadDoesNotLoseTheRevisions(t *testing.T) {
	server := newServer(t)
	source := newSource(t, cluster.Config{URL: server.Start(t)})
	read(t, source)
	server.SetRevision(200)
	server.SetFault(pathServices, kubetest.Fault{Status: 500, Times: 1})
	if _, err := source.Read(t.Context(), kube.ReadOptions{}); err == nil {
		t.Fatal("the read does not fail")
	}
	asked(t, server)
	read(t, source)
	if d := cmp.Diff("now ing:200 rou:200 ser:200 end:200", asked(t, server)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

func TestAGoneRevisionIsReadConsistentlyAtOnce(t *testing.T) {
	for _, protobuf := range []bool{false, true} {
		server := newServer(t)
		server.SetEncodings(protobuf, false)
		source := newSource(t, cluster.Config{URL: server.Start(t)})
		before := read(t, source)
		asked(t, server)
		server.SetFault(pathServices, kubetest.Fault{Status: 410, Times: 1})
		if after := read(t, source); !before.SameObjects(after) {
			t.Error("the objects are others")
		}
		if d := cmp.Diff("now ing:100 rou:100 ser:100 ser:- end:100", asked(t, server)); d != "" {
			t.Errorf("-want +got\n%s", d)
		}
		server.SetFault(pathServices, kubetest.Fault{Status: 410})
		if _, err := source.Read(t.Context(), kube.ReadOptions{}); err == nil {
			t.Error("a consistent list that is gone passes")
		}
		if d := cmp.Diff("now ing:100 rou:100 ser:100 ser:-", asked(t, server)); d != "" {
			t.Errorf("it is repeated more than once: -want +got\n%s", d)
		}
	}
}

// The revision of one list is too large for the server, which has it after all when it is asked consistently: another
// API server, or a cache that lags.
func TestATooLargeRevisionIsReadConsistentlyAtOnce(t *testing.T) {
	server := newServer(t)
	log, text := logger()
	source := newSource(t, cluster.Config{URL: server.Start(t), Logger: log})
	server.SetFault(pathServices, kubetest.Fault{Revision: 105, Times: 1})
	read(t, source)
	asked(t, server)
	server.SetFault(pathServices, kubetest.Fault{Revision: 105})
	read(t, source)
	if d := cmp.Diff("now ing:100 rou:100 ser:105 ser:- end:100", asked(t, server)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if text.String() != "" {
		t.Errorf("logs\n%s", text)
	}
}

func TestAnOrdinaryGatewayTimeoutIsNotRepeated(t *testing.T) {
	server := newServer(t)
	source := newSource(t, cluster.Config{URL: server.Start(t)})
	read(t, source)
	asked(t, server)
	server.SetFault(pathServices, kubetest.Fault{Status: 504})
	if _, err := source.Read(t.Context(), kube.ReadOptions{}); err == nil {
		t.Error("a gateway timeout passes")
	}
	if d := cmp.Diff("now ing:100 rou:100 ser:100", asked(t, server)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

func TestARestoredClusterIsReadAgainAsAWhole(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.Name, func(t *testing.T) {
			server := newServer(t)
			server.SetEncodings(e.Protobuf, e.GZip)
			log, text := logger()
			m := cluster.NewMetrics(nil)
			source := newSource(t, cluster.Config{URL: server.Start(t), Logger: log, Metrics: m})
			read(t, source)
			asked(t, server)

			server.SetRevision(50)
			server.Delete(kube.Ref{Kind: kube.KindIngress, Namespace: "n1", Name: "a"})
			got := read(t, source)
			if got.Revision != 51 || len(got.Ingresses) != 1 {
				t.Errorf("revision %d with %d ingresses, want 51 with 1", got.Revision, len(got.Ingresses))
			}
			if d := cmp.Diff("now ing:- rou:- ser:- end:-", asked(t, server)); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
			if n := testutil.ToFloat64(m.Restores); n != 1 || strings.Count(text.String(), logRestored) != 1 {
				t.Errorf("%v restores are counted, want 1; log\n%s", n, text)
			}
			if n := testutil.CollectAndCount(m.ReadErrors); n != 0 {
				t.Errorf("a restore counts as %d errors", n)
			}
			read(t, source)
			if d := cmp.Diff("now ing:51 rou:51 ser:51 end:51", asked(t, server)); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
}

// The restore shows in the middle of a read: what was listed before it must not be mixed with what comes after.
func TestARestoreWithinAReadMixesNothing(t *testing.T) {
	server := newServer(t)
	m := cluster.NewMetrics(nil)
	source := newSource(t, cluster.Config{URL: server.Start(t), Metrics: m})
	read(t, source)
	asked(t, server)
	server.OnRequest(func(r kubetest.Request) {
		if r.Path == pathRouteGroups {
			server.SetRevision(40)
		}
	})
	server.SetRevision(110)
	if got := read(t, source); got.Revision != 40 {
		t.Errorf("revision %d, want 40", got.Revision)
	}
	if d := cmp.Diff("now ing:110 rou:110 rou:100 rou:- ing:- rou:- ser:- end:-", asked(t, server)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if n := testutil.ToFloat64(m.Restores); n != 1 {
		t.Errorf("%v restores are counted, want 1", n)
	}
}

// The read that found the restore fails half way. The next one goes on, still without a mix, and counts no other restore.
func TestARestoreSurvivesAFailedRead(t *testing.T) {
	server := newServer(t)
	m := cluster.NewMetrics(nil)
	source := newSource(t, cluster.Config{URL: server.Start(t), Metrics: m})
	read(t, source)
	server.SetRevision(50)
	server.SetFault(pathServices, kubetest.Fault{Status: 500, Times: 1})
	if _, err := source.Read(t.Context(), kube.ReadOptions{}); err == nil {
		t.Fatal("the read does not fail")
	}
	asked(t, server)
	if got := read(t, source); got.Revision != 50 {
		t.Errorf("revision %d, want 50", got.Revision)
	}
	if d := cmp.Diff("now ing:50 rou:50 ser:- end:-", asked(t, server)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if n := testutil.ToFloat64(m.Restores); n != 1 {
		t.Errorf("%v restores are counted, want 1", n)
	}
}

// A proxy in between answers from a cache of its own and heeds no revision.
func TestAnAnswerOlderThanAskedForFailsTheRead(t *testing.T) {
	server := newServer(t)
	m := cluster.NewMetrics(nil)
	source := newSource(t, cluster.Config{URL: server.Start(t), Metrics: m})
	read(t, source)
	asked(t, server)
	server.SetFault(pathServices, kubetest.Fault{Revision: 99})
	if _, err := source.Read(t.Context(), kube.ReadOptions{}); err == nil || !strings.Contains(err.Error(), "older") {
		t.Errorf("error %v, want one that says it is older", err)
	}
	if d := cmp.Diff("now ing:100 rou:100 ser:100", asked(t, server)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if n := testutil.ToFloat64(m.ReadErrors.WithLabelValues("Service", "stale")); n != 1 {
		t.Errorf("%v stale answers are counted, want 1", n)
	}
}

// The server stops telling revisions: the lists are consistent ones from then on and the snapshot has none.
func TestAServerThatTellsNoRevisionAnyMoreIsReadConsistently(t *testing.T) {
	server := newServer(t)
	source := newSource(t, cluster.Config{URL: server.Start(t)})
	read(t, source)
	asked(t, server)
	server.SetRevision(0)
	if got := read(t, source); got.Revision != 0 {
		t.Errorf("revision %d, want none", got.Revision)
	}
	if d := cmp.Diff("now ing:100 ing:- rou:100 rou:- ser:100 ser:- end:100 end:-", asked(t, server)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}
