package rollout_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/rollout"
)

func TestShareGoesByTheNameThatLasts(t *testing.T) {
	const node, pod = "ip-10-0-1-7", "skipper-ingress-7d4b9c6f5d-x2x7z"
	for _, tt := range []struct {
		by        string
		node, pod string
		want      rollout.Member
		fails     bool
	}{
		{by: "auto", node: node, pod: pod, want: rollout.Member{By: rollout.ShareByNode, Name: node}},
		{by: "Auto", pod: pod, want: rollout.Member{By: rollout.ShareByPod, Name: pod}}, // as before the node name existed
		{by: "node", node: node, pod: pod, want: rollout.Member{By: rollout.ShareByNode, Name: node}},
		{by: "NODE", pod: pod, fails: true},
		{by: "pod", node: node, pod: pod, want: rollout.Member{By: rollout.ShareByPod, Name: pod}},
	} {
		by, err := rollout.ParseShareBy(tt.by)
		if err != nil || !strings.EqualFold(by.String(), tt.by) {
			t.Fatalf("%s is %s, %v", tt.by, by, err)
		}
		got, err := by.Member(tt.node, tt.pod)
		if got != tt.want || (err != nil) != tt.fails {
			t.Errorf("%s of node %q and pod %q: %+v, %v; want %+v", tt.by, tt.node, tt.pod, got, err, tt.want)
		}
	}
	if by, err := rollout.ParseShareBy("zone"); err == nil || by != rollout.ShareByAuto || !strings.Contains(err.Error(), `"zone"`) {
		t.Errorf("zone: %s, %v", by, err)
	}
	if got := rollout.ShareBy(9).String(); got != "ShareBy(9)" {
		t.Errorf("an unknown one is %q", got)
	}
}

// A rollout replaces every pod of a Deployment. Without node names, that draws another share; node names prevent it.
func TestARolloutDrawsNoOtherShare(t *testing.T) {
	quarter := rollout.Setting{Mode: rollout.Exec, Percent: 25}
	modes := func(by rollout.ShareBy, revision string) (all []rollout.Mode) {
		for i := range 300 {
			m, err := by.Member(nodeName(i), fmt.Sprintf("skipper-ingress-%s-%05x", revision, 7*i))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, quarter.For(m.Name))
		}
		return all
	}
	moved := func(by rollout.ShareBy) (n int) {
		before, after := modes(by, "7d4b9c6f5d"), modes(by, "5c8f77d9b4")
		for i := range before {
			if before[i] != after[i] {
				n++
			}
		}
		return n
	}
	if n := moved(rollout.ShareByAuto); n != 0 {
		t.Errorf("%d of 300 proxies changed their mode with a rollout", n)
	}
	if n := moved(rollout.ShareByPod); n < 50 { // 3 of 8 on average, 112
		t.Errorf("%d of 300 proxies changed their mode by the names of pods: the test shows nothing", n)
	}
}

func TestShareOfANodeNeverChanges(t *testing.T) {
	// Fixed values: another hash would move proxies of running fleets from one mode to the other with an upgrade.
	var in []string
	for i := range 40 {
		if (rollout.Setting{Mode: rollout.Exec, Percent: 25}).For(nodeName(i)) == rollout.Exec {
			in = append(in, fmt.Sprint(i))
		}
	}
	if got, want := strings.Join(in, " "), "10 25 27 29 31"; got != want {
		t.Errorf("a quarter of 40 nodes: %s, want %s", got, want)
	}
}

// nodeName is a name as a cloud assigns it.
func nodeName(i int) string {
	return fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i/250, i%250)
}
