package validate_test

import (
	"maps"
	"slices"

	"github.com/routesrv/routesrv/kube"
)

func sortedRefs(objects map[kube.Ref]string) []kube.Ref {
	return slices.SortedFunc(maps.Keys(objects), kube.Ref.Compare)
}
