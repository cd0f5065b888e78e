package rollout_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/rollout"
)

func TestShareGoesByTheNameThatLasts(t *testing.T) {
	const node, pod = "ip-10-0-1-7", "skipper-ingress-7d4b9c6f5d-x2x7z"
	if got, want := rollout.MemberOf(node, pod), (rollout.Member{By: "node", Name: node}); got != want {
		t.Errorf("with a node: %+v, want %+v", got, want)
	}
	if got, want := rollout.MemberOf("", pod), (rollout.Member{By: "pod", Name: pod}); got != want {
		t.Errorf("without a node: %+v, want %+v", got, want)
	}
}

// A rollout replaces every pod of a Deployment. Without node names, that draws another share; node names prevent it.
func TestARolloutDrawsNoOtherShare(t *testing.T) {
	quarter := rollout.Setting{Mode: rollout.Exec, Percent: 25}
	modes := func(node func(int) string, revision string) (all []rollout.Mode) {
		for i := range 300 {
			m := rollout.MemberOf(node(i), fmt.Sprintf("skipper-ingress-%s-%05x", revision, 7*i))
			all = append(all, quarter.For(m.Name, -1))
		}
		return all
	}
	moved := func(node func(int) string) (n int) {
		before, after := modes(node, "7d4b9c6f5d"), modes(node, "5c8f77d9b4")
		for i := range before {
			if before[i] != after[i] {
				n++
			}
		}
		return n
	}
	if n := moved(nodeName); n != 0 {
		t.Errorf("%d of 300 proxies changed their mode with a rollout", n)
	}
	if n := moved(func(int) string { return "" }); n < 50 { // 3 of 8 on average, 112
		t.Errorf("%d of 300 proxies changed their mode by the names of pods: the test shows nothing", n)
	}
}

func TestShareOfANodeNeverChanges(t *testing.T) {
	// Fixed values: another hash would move proxies of running fleets from one mode to the other with an upgrade.
	var in []string
	for i := range 40 {
		if (rollout.Setting{Mode: rollout.Exec, Percent: 25}).For(nodeName(i), -1) == rollout.Exec {
			in = append(in, fmt.Sprint(i))
		}
	}
	if got, want := strings.Join(in, " "), "10 25 27 29 31"; got != want {
		t.Errorf("a quarter of 40 nodes: %s, want %s", got, want)
	}
}

// A small fleet has no useful percentages: 34 % of three nodes can be all of them.
func TestACountMovesExactlyThatManyNodes(t *testing.T) {
	for _, nodes := range []int{1, 3, 8, 300} {
		fleet := []string{nodeName(0), nodeName(0)} // two pods of one node, during a rollout
		for i := range nodes {
			fleet = append(fleet, nodeName(i))
		}
		order := rollout.NewOrder(fleet)
		for count := 1; count <= 4; count++ {
			set, err := rollout.ParseSetting(fmt.Sprintf("Exec:%d", count))
			if err != nil {
				t.Fatal(err)
			}
			moved := 0
			for i := range nodes {
				if set.For(nodeName(i), order.Rank(nodeName(i))) == rollout.Exec {
					moved++
				}
				if set.For(nodeName(i), -1) != rollout.Pre {
					t.Error("a node of unknown rank uses Exec")
				}
			}
			if want := min(count, nodes); moved != want {
				t.Errorf("%s: %d of %d nodes, want %d", set, moved, nodes, want)
			}
			if again, err := rollout.ParseSetting(set.String()); err != nil || again != set {
				t.Errorf("ParseSetting(%q) = %v, %v", set, again, err)
			}
		}
	}
}

// nodeName is a name as a cloud assigns it.
func nodeName(i int) string {
	return fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i/250, i%250)
}
