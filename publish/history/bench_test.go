package history_test

import (
	"fmt"
	"testing"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish/history"
)

// large is the intent of a cluster of 15,000 Ingresses.
func large() *kube.Intent {
	var i kube.Intent
	for n := range 15_000 {
		ing := ingress(fmt.Sprintf("team-%d", n%500), fmt.Sprintf("app-%d", n), `setRequestHeader("X-Team", "a")`)
		ing.Spec.Rules[0].HTTP = true
		for p := range 3 {
			ing.Spec.Rules[0].Paths = append(ing.Spec.Rules[0].Paths, kube.IngressPath{
				Path: fmt.Sprintf("/path-%d", p), PathType: "Prefix", Backend: &kube.IngressBackend{Service: fmt.Sprintf("app-%d", n), PortNumber: 80},
			})
		}
		i.Ingresses = append(i.Ingresses, ing)
	}
	return &i
}

// BenchmarkFirstRecord: all objects are new to the history.
func BenchmarkFirstRecord(b *testing.B) {
	intent := large()
	for b.Loop() {
		h := history.Open(history.Config{Folder: b.TempDir()})
		h.Record(api.HistoryEntry{At: start}, intent)
		h.Close()
	}
}

// BenchmarkRecordOneChange: one of 15,000 objects changed.
func BenchmarkRecordOneChange(b *testing.B) {
	intent := large()
	h := history.Open(history.Config{Folder: b.TempDir()})
	h.Record(api.HistoryEntry{At: start}, intent)
	n := 0
	for b.Loop() {
		n++
		intent.Ingresses[7] = ingress("team-7", "app-7", fmt.Sprint(n))
		h.Record(api.HistoryEntry{At: start}, intent)
	}
	h.Close()
}
