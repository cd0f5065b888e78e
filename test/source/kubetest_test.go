package source_test

import (
	"testing"

	"github.com/routesrv/routesrv/test/kubetest"
)

// The fake satisfies the contract that it serves to test.
func TestServerIsASource(t *testing.T) {
	testSource(t, func(t *testing.T, objects string) world {
		s, err := kubetest.New([]byte(objects), kubetest.API{})
		if err != nil {
			t.Fatal(err)
		}
		return worldOf(t, s, s, "/api/v1/services")
	})
}
