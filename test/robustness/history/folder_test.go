package history_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/test/robustness/history"
)

func TestLoadReadsWhatSaveWrote(t *testing.T) {
	want := &history.History{
		Run:          history.Run{Seed: 1<<64 - 1, Calm: time.Second, Members: []history.Member{{Name: "s1", Kind: history.Server}}},
		Changes:      []history.Change{{At: 1, Revision: 7, Object: "{\"a\":\"\\n\"}"}, {Reset: true}},
		Reads:        []history.Read{{Member: "s1", Whole: true}},
		Faults:       []history.Fault{{From: 1, To: 2, Name: "cut", Link: "p1>s1"}},
		Events:       []history.Event{{Name: "held"}},
		Publications: []history.Publication{{At: 3, Member: "s1", Digest: "ab", Revision: 7, Stale: true}},
		Answers:      []history.Answer{{Client: "p1", Outcome: history.Applied, Digest: "ab"}},
		Samples:      []history.Sample{{Member: "s1", Problems: map[string]int{"x": 1}}},
		Tables:       map[string]string{"ab": "r: * -> <shunt>;"},
	}
	dir := t.TempDir()
	if err := want.Save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := history.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
