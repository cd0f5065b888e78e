// Package e2e runs the built routesrv and dataplane-client against a real kube-apiserver and etcd, with the product's own
// ServiceAccount and RBAC rules, and acts as a proxy.
//
// KUBEBUILDER_ASSETS names the folder of the binaries; make e2e builds them if they are missing.
package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/routesrv/routesrv/test/programs"
	"github.com/routesrv/routesrv/test/proxy"
	"github.com/routesrv/routesrv/test/sandbox"
)

// Set by TestMain, only read by tests.
var (
	clusters  *pool
	binary    string // path of the built routesrv
	dataplane string // path of the built dataplane-client
	plugin    string // path of the built kubectl-routesrv
)

func TestMain(m *testing.M) {
	proxy.Main()
	// Not as many as there are processors, which is the default: the tests wait. -parallel still has the last word.
	if err := flag.Set("test.parallel", strconv.Itoa(sideBySide)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	flag.Parse()
	// TestWalkThroughTheOverlays runs containers.
	if status, done := sandbox.Enter(); done {
		os.Exit(status)
	}
	os.Exit(programs.Main("../..", []string{"routesrv", "dataplane-client", "kubectl-routesrv"}, func(dir string) int {
		binary, dataplane, plugin = filepath.Join(dir, "routesrv"), filepath.Join(dir, "dataplane-client"), filepath.Join(dir, "kubectl-routesrv")
		clusters = newPool()
		defer func() {
			if err := clusters.stop(); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}()
		return m.Run()
	}))
}
