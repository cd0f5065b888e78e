package e2e

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/programs"
)

// pollMillis is the poll interval of the server in these tests.
const pollMillis = 300

// process is a running routesrv or dataplane-client, with what only these tests ask it.
type process struct{ *programs.Process }

// startProcess starts a binary that serves on the addresses.
func startProcess(t *testing.T, path, main, support string, args []string) *process {
	t.Helper()
	return &process{programs.Start(t, path, main, support, args)}
}

// kubeconfig writes a kubeconfig for the API behind the proxy, with the token.
func kubeconfig(t *testing.T, api *faultProxy, token string) string {
	t.Helper()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})
	return programs.Kubeconfig(t, api.URL, authority, token)
}

// startRoutesrv starts the built binary with the product's ServiceAccount; it reads the API behind the proxy.
func startRoutesrv(t *testing.T, api *faultProxy, args ...string) *process {
	t.Helper()
	token, err := api.cluster.token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return startWithToken(t, api, token, args...)
}

func startWithToken(t *testing.T, api *faultProxy, token string, args ...string) *process {
	t.Helper()
	main, support := programs.FreeAddress(t), programs.FreeAddress(t)
	all := append([]string{"-address=" + main, "-support-listener=" + support, "-wait-for-healthcheck-interval=0s"},
		sourceArgs(t, api, token)...)
	return startProcess(t, binary, main, support, append(all, args...))
}

// sourceArgs returns arguments that make either binary read the API with the token.
func sourceArgs(t *testing.T, api *faultProxy, token string) []string {
	t.Helper()
	return []string{
		"-kubernetes", "--kubeconfig=" + kubeconfig(t, api, token), "-enable-kubernetes-endpointslices",
		fmt.Sprintf("-source-poll-timeout=%d", pollMillis),
	}
}

// get asks the main listener; a non-empty etag makes the request conditional.
func (p *process) get(t *testing.T, path, etag string) programs.Answer {
	t.Helper()
	a, err := programs.Fetch(t.Context(), p.Main+path, etag)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// supportJSON decodes an answer of the support listener, or of the control socket of a data plane.
func (p *process) supportJSON(t *testing.T, path string, v any) {
	t.Helper()
	a, err := programs.Fetch(t.Context(), p.Support+path, "")
	if filepath.Base(p.Cmd.Path) == "dataplane-client" { // answers this machine only over its socket
		a, err = programs.Control(t.Context(), http.MethodGet, p.State, path)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(a.Body), v); err != nil {
		t.Fatalf("%s: %v: %s", path, err, a.Body)
	}
}

// statusBody is the part of /status that the tests read.
type statusBody struct {
	Table *struct {
		Digest   string `json:"digest"`
		Routes   int    `json:"routes"`
		Revision uint64 `json:"revision"`
		Stale    bool   `json:"stale"`
	} `json:"table"`
	Source struct {
		LastSuccess time.Time `json:"last_success"`
		Failures    int       `json:"failures"`
		LastError   string    `json:"last_error"`
		Revision    uint64    `json:"revision"`
	} `json:"source"`
}

func (p *process) status(t *testing.T) statusBody {
	t.Helper()
	var s statusBody
	p.supportJSON(t, "/status", &s)
	return s
}

// compileManifests returns the output of routesrv compile for a folder.
func compileManifests(t *testing.T, wantExit int, args ...string) (table, problems string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"compile", "-enable-kubernetes-endpointslices"}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if code := cmd.ProcessState.ExitCode(); code != wantExit {
		t.Fatalf("routesrv compile: exit %d, want %d: %v: %s", code, wantExit, err, stderr.String())
	}
	return strings.TrimSuffix(string(out), "\n"), stderr.String()
}
