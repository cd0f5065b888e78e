// Package manifests applies the manifests of the repository to real API servers, follows the guide of the installation, and asks
// what the accounts may do. Each test has its own API server, into which nothing of the product was installed.
//
// KUBEBUILDER_ASSETS names the folder of the binaries; make e2e builds them if they are missing.
package manifests

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/routesrv/routesrv/test/programs"
)

const (
	root = "../../.." // of the checkout

	systemNamespace = "routesrv"
	serviceAccount  = "routesrv"
)

// Set by TestMain, only read by tests.
var (
	routesrv  string // path of the built routesrv
	dataplane string // path of the built dataplane-client
)

func TestMain(m *testing.M) {
	os.Exit(programs.Main(root, []string{"routesrv", "dataplane-client"}, func(dir string) int {
		routesrv, dataplane = filepath.Join(dir, "routesrv"), filepath.Join(dir, "dataplane-client")
		return m.Run()
	}))
}
