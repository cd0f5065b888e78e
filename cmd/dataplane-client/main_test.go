package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/program"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/rollout"
)

const shop = "../../examples/shop"

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func TestExitStatusesAndMessages(t *testing.T) {
	for _, c := range []struct {
		name   string
		args   []string
		status int
		out    string // regular expressions
		stderr string
	}{
		{name: "version", args: []string{"version"}, out: `^dataplane-client \S+ go1\.`},
		{name: "version flag", args: []string{"--version"}, out: `^dataplane-client `},
		{
			name: "settings are checked and nothing is started", out: `^configuration is valid\n$`, stderr: `--state-dir`,
			args: []string{"--check-config", "-kubernetes", "-kubernetes-in-cluster", "--upstream=http://routesrv"},
		},
		{name: "a check looks at all flags together", args: []string{"--check-config"}, status: 2, stderr: `--upstream.*-kubernetes`},
		{name: "help", args: []string{"--help"}, out: `(?s)Mode .*--mode MODE.*Exec:25%.*--cutover-check.*--fallback.*Upstream .*Listeners and shutdown `},
		{name: "nothing to do", status: 2, stderr: `--upstream.*-kubernetes`},
		{name: "no such mode", args: []string{"--mode", "Maybe"}, status: 2, stderr: `--mode.*"Maybe": must be False, Pre, Exec`},
		{name: "no such cutover check", args: []string{"--cutover-check", "on"}, status: 2, stderr: `report, enforce, off`},
		{name: "no such fallback", args: []string{"--fallback", "yes"}, status: 2, stderr: `boot, never, always`},
		{name: "too short", args: []string{"--fallback=after=1ms"}, status: 2, stderr: `from 1s to 720h`},
		{name: "no such transport", args: []string{"--update-mode", "push"}, status: 2, stderr: `--update-mode: "push": must be one of auto, stream, poll`},
		{name: "no port", args: []string{"--address", "localhost"}, status: 2, stderr: `must be HOST:PORT`},
		{
			name: "Exec without a route server", args: []string{"--mode", "Exec", "--manifests", shop}, status: 2,
			stderr: `mode Exec needs a route server: set --upstream`,
		},
		{
			name: "False without a source", args: []string{"--upstream", "http://routesrv"}, status: 2,
			stderr: `mode False needs objects.*-kubernetes`,
		},
		{
			name: "half of a pair", status: 2, stderr: `--upstream-tls: client certificate: set both`,
			args: []string{"--mode", "Exec", "--upstream", "http://routesrv", "--upstream-tls=cert=x"},
		},
		{
			name: "what is computed has a zone, too", status: 2, stderr: `zone "a/b": must be letters`,
			args: []string{"--manifests", shop, "--zone", "a/b"},
		},
		{
			name: "two zones of a computed table", status: 2, stderr: `both a zone and a zone file`,
			args: []string{"--manifests", shop, "--zone", "a", "--zone-file", "b"},
		},
		{
			name: "two zones", status: 2, stderr: `both a zone and a zone file`,
			args: []string{"--mode", "Exec", "--upstream", "http://routesrv", "--zone", "a", "--zone-file", "b"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			status := run(t.Context(), c.args, nil, program.Stdio{In: strings.NewReader(""), Out: &out, Err: &errs})
			if status != c.status {
				t.Errorf("status %d, want %d", status, c.status)
			}
			for text, want := range map[string]string{out.String(): c.out, errs.String(): c.stderr} {
				if want != "" && !regexp.MustCompile(want).MatchString(text) {
					t.Errorf("got\n%s\nwant %s", text, want)
				}
			}
		})
	}
}

// parse parses the flags of the program.
func parse(args []string) (*options.Sidecar, []*options.Error, error) {
	var c options.Sidecar
	cmd := &cobra.Command{Use: "dataplane-client", SilenceErrors: true, SilenceUsage: true}
	flags := options.SidecarFlags(cmd, &c)
	cmd.RunE = func(_ *cobra.Command, args []string) error { return flags.Resolve(args, options.Env{}) }
	_, err := options.SetArgs(cmd, args)
	if err == nil {
		err = cmd.Execute()
	}
	return &c, flags.Warnings(), err
}

func TestFlagsReachTheSidecar(t *testing.T) {
	f, warnings, err := parse([]string{
		"--mode=exec:25%", "--upstream", "http://a", "--upstream=http://b,http://c", "--cutover-check=enforce",
		"--cutover-check=clean-for=1m", "--cutover-check=comparisons=7", "--fallback=always", "--fallback=after=2m", "--fallback=max-age=3h",
		"--fallback=window=4m", "--timing=fetch-timeout=6s", "--update-mode=stream", "--zone=z", "--state-dir=/l",
		"--routes-file=/r", "--pod-name=p", "--pod-namespace=ns", "--node-name=n", "--support-listener=", "-kubernetes", "-source-poll-timeout=9000",
		"-enable-kubernetes-endpointslices", "--guard=max-loss=0.25,max-bytes=1000",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range warnings {
		t.Errorf("warning %v", w)
	}
	c := f.Sidecar
	if got := c.Setting; got != (rollout.Setting{Mode: rollout.Exec, Percent: 25}) {
		t.Errorf("setting %v", got)
	}
	if got := strings.Join(c.Fetch.URLs, " "); got != "http://a http://b http://c" {
		t.Errorf("URLs %s", got)
	}
	if got, want := c.Cutover, (rollout.CutoverConfig{Policy: rollout.CutoverEnforce, CleanFor: time.Minute, MinComparisons: 7}); got != want {
		t.Errorf("cutover check %+v, want %+v", got, want)
	}
	want := rollout.FallbackConfig{Policy: rollout.FallbackAlways, After: 2 * time.Minute, MaxAge: 3 * time.Hour, Window: 4 * time.Minute}
	if c.Fallback != want {
		t.Errorf("fallback %+v, want %+v", c.Fallback, want)
	}
	if c.Fetch.Interval != 9*time.Second || c.Fetch.Timeout != 6*time.Second || c.Fetch.MaxBytes != 1000 || c.Fetch.Zone != "z" ||
		c.StateDir != "/l" || c.Fetch.UpdateMode != dataplane.Stream || c.RoutesFile != "/r" {
		t.Errorf("fetch %+v", c.Fetch)
	}
	if c.Pod != "p" || c.PodNamespace != "ns" || c.Node != "n" || c.SupportAddress != "" || c.Address != "127.0.0.1:9005" || c.Interval != 9*time.Second ||
		!c.Compile.EndpointSlices || c.Guard.MaxLoss != 0.25 || !f.Source.Kubernetes {
		t.Errorf("%+v", c)
	}
}

// TestProtectionReachesTheSidecar: the flags set the configuration of the sidecar, and flags without effect are named.
func TestProtectionReachesTheSidecar(t *testing.T) {
	args := []string{
		"--mode=Exec", "--upstream=http://a", "--state-dir=/l", "--fallback=never", "--support-loopback-only",
	}
	f, warnings, err := parse(args)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	if !f.Sidecar.SupportLoopbackOnly {
		t.Error("the pages are not only for the control socket")
	}
	if _, warnings, err = parse(append(args, "--support-listener=")); err != nil || len(warnings) != 1 || warnings[0].Flag != "-support-listener" {
		t.Errorf("without a listener: %v %v", err, warnings)
	}
}

func TestWhatIsLikelyAMistakeIsSaid(t *testing.T) {
	f, warnings, err := parse([]string{"--mode=Exec", "--upstream=http://a"})
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, w := range warnings {
		all.WriteString(w.Error() + "\n")
	}
	for _, part := range []string{"--state-dir", "--fallback"} {
		if !strings.Contains(all.String(), part) {
			t.Errorf("no warning about %s in:\n%s", part, all.String())
		}
	}
	if host, err := os.Hostname(); err == nil && f.Sidecar.Pod != host {
		t.Errorf("pod %q, want the name of the host %q", f.Sidecar.Pod, host)
	}
}

// The whole program: it computes a table, and rereads the mode file on a signal.
func TestProgramServesAndFollowsItsModeFile(t *testing.T) {
	state := t.TempDir()
	mode := filepath.Join(t.TempDir(), "mode")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(mode, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("False")
	var errs buffer
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{
			"--mode-file", mode, "--manifests", shop, "--upstream", "http://127.0.0.1:1", "--state-dir", state,
			"--address", "127.0.0.1:0", "--support-listener", "localhost:0",
		}, nil, program.Stdio{In: strings.NewReader(""), Out: &errs, Err: &errs})
	}()
	client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
	main := eventually(t, &errs, regexp.MustCompile(`msg="main listener open" component=sidecar address=(\S+)`))
	get := func(url string) *http.Response {
		t.Helper()
		resp, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body = io.NopCloser(bytes.NewReader(body))
		return resp
	}
	if resp := get("http://" + main + "/routes"); resp.StatusCode != http.StatusOK || resp.Header.Get("X-Count") == "" {
		t.Errorf("/routes: status %d, headers %v", resp.StatusCode, resp.Header)
	}
	write("pre")
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	operator := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return httpserve.DialControl(ctx, state)
	}}}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		var status struct{ Mode, Origin string }
		resp, err := operator.Get("http://pod/status")
		if err != nil {
			t.Fatal(err)
		}
		err = json.NewDecoder(resp.Body).Decode(&status)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if status.Mode == "Pre" && status.Origin == "self" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("status %+v after the signal", status)
		}
	}
	client.CloseIdleConnections()
	cancel()
	if got := <-done; got != program.ExitOK {
		t.Errorf("exit status %d, log:\n%s", got, &errs)
	}
}

// eventually waits for a matching line and returns its first group.
func eventually(t *testing.T, b *buffer, line *regexp.Regexp) string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if m := line.FindStringSubmatch(b.String()); m != nil {
			return m[1]
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %s in:\n%s", line, b)
		}
	}
}

// buffer is a stream that can be read while it is written.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// ourFlags is the number of flags of our own: settings that Skipper's route server does not have, over all programs. Each is one more
// thing to understand, so it must be at most 40.
const ourFlags = 37

func TestNumberOfOurFlags(t *testing.T) {
	names := make(map[string]bool)
	for _, f := range slices.Concat(options.RouteServerFlags(&cobra.Command{}, new(options.RouteServer)).All(), options.SidecarFlags(&cobra.Command{}, new(options.Sidecar)).All()) {
		if f.Own {
			names[f.Name] = true
		}
	}
	if len(names) != ourFlags || ourFlags > 40 {
		t.Errorf("%d flags of our own, want %d: %v", len(names), ourFlags, slices.Sorted(maps.Keys(names)))
	}
}
