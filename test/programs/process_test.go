package programs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/app/program"
	"github.com/routesrv/routesrv/table"
	"github.com/routesrv/routesrv/test/programs"
)

// removeBuilt removes the programs, if they were built.
var removeBuilt = func() {}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		removeBuilt()
		os.Exit(status)
	}))
}

// built builds the programs without the race detector, which would change how much memory they use.
var built = sync.OnceValues(func() (dir string, err error) {
	dir, removeBuilt, err = programs.Build("../..", programs.Plain, "dataplane-client", "routesrv")
	return dir, err
})

// binary returns the path of a program.
func binary(t *testing.T, name string) string {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// process is a running dataplane-client, started with Exec.
type process struct {
	t       *testing.T
	cmd     *exec.Cmd
	log     *programs.Buffer
	ended   chan struct{}
	support string
	state   string // the folder of the control socket
}

// startProcess starts the program for a route server and waits for its listeners.
func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, log: &programs.Buffer{}, ended: make(chan struct{})}
	p.cmd = exec.Command(binary(t, "dataplane-client"), append([]string{
		"--mode=Exec", "--fallback=never", "--address=127.0.0.1:0", "--support-listener=127.0.0.1:0", "--pod-name=p", "--state-dir=" + t.TempDir(),
	}, args...)...)
	for _, a := range p.cmd.Args {
		if path, ok := strings.CutPrefix(a, "--state-dir="); ok {
			p.state = path
		}
	}
	p.cmd.Stderr = p.log
	p.cmd.Env = append(os.Environ(), "GOGC=", "GOMEMLIMIT=")
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(p.ended); _ = p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); <-p.ended })
	p.support = "http://" + eventually(t, p.log, regexp.MustCompile(`msg="support listener open" component=sidecar address=(\S+)`))
	return p
}

// status requests /status, over the control socket.
func (p *process) status() (s struct {
	Ready  bool
	Origin string
	Fetch  struct {
		Failures      int
		Stream        struct{ Event string }
		LastKnownGood struct{ Path, Unusable, Written, Error string } `json:"last_known_good"`
		Servers       []struct {
			Reason string
			Error  string `json:"last_error"`
		}
	}
	Table struct{ Routes int }
}) {
	p.t.Helper()
	a, err := programs.Control(p.t.Context(), http.MethodGet, p.state, "/status")
	if err != nil {
		p.t.Fatalf("%v; log:\n%s", err, p.log)
	}
	if err := json.Unmarshal([]byte(a.Body), &s); err != nil {
		p.t.Fatal(err)
	}
	return s
}

// patience is the longest that anything may take before a test gives up. Nothing else depends on it.
const patience = 5 * time.Minute

// until waits until a condition holds.
func (p *process) until(what string, ok func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("no %s; status %+v, log:\n%.5000s", what, p.status(), p.log)
		}
	}
}

// peak returns the peak memory of the process in bytes.
func (p *process) peak() int64 { return p.memory("VmHWM") }

// resident returns the current memory of the process in bytes, without the pages of the program, which the kernel drops as it likes.
func (p *process) resident() int64 { return p.memory("RssAnon") }

// memory returns a field of the kernel's status of the process, in bytes.
func (p *process) memory(field string) int64 {
	p.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	m := regexp.MustCompile(field + `:\s+(\d+) kB`).FindSubmatch(data)
	if m == nil {
		p.t.Fatalf("no %s in\n%s", field, data)
	}
	kib, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return kib << 10
}

// terminate sends SIGTERM and expects a normal exit.
func (p *process) terminate() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		p.t.Fatalf("no end after SIGTERM; log:\n%s", p.log)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != program.ExitOK {
		p.t.Errorf("exit status %d; log:\n%s", code, p.log)
	}
}

// tableOf makes a table with the given number of routes.
func tableOf(t testing.TB, routes int, revision uint64) *table.Table {
	t.Helper()
	var all []table.Route
	for i := range routes {
		id := fmt.Sprintf("r%07d", i)
		all = append(all, table.Route{ID: id, Text: fmt.Sprintf(`%s: Path("/%d/%d") -> "http://10.0.0.1:8080";`, id, revision, i)})
	}
	tab, err := table.New(all, revision, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// answerWith serves a table in the way a route server does.
func answerWith(w http.ResponseWriter, tab *table.Table) {
	h := w.Header()
	h.Set("Etag", fmt.Sprintf(`"%s.%d"`, tab.Digest(), tab.Revision()))
	h.Set("X-Revision", strconv.FormatUint(tab.Revision(), 10))
	h.Set("X-Source-Read", time.Now().UTC().Format(time.RFC3339Nano))
	h.Set("Content-Length", strconv.Itoa(tab.Bytes()))
	_, _ = tab.WriteTo(w)
}

// TestKilledProcessesLeaveNoFiles kills the program while it writes one table after another.
func TestKilledProcessesLeaveNoFiles(t *testing.T) {
	var mu sync.Mutex
	revision := uint64(1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		revision++
		tab := tableOf(t, 2000, revision)
		mu.Unlock()
		answerWith(w, tab)
	}))
	defer server.Close()
	dir := t.TempDir()
	for range 12 {
		p := startProcess(t, "--upstream="+server.URL, "--update-mode=poll", "-source-poll-timeout=1", "--guard=max-loss=1",
			"--state-dir="+dir, "--routes-file="+dir+"/routes")
		// A poll begins when the previous table is on disk, so some kills hit a write.
		p.until("tables", func() bool { return strings.Count(p.log.String(), `msg="table applied"`) >= 5 })
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-p.ended
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		switch name, random, temporary := strings.Cut(e.Name(), ".tmp"); {
		case !temporary && slices.Contains([]string{"control", "lock", "proof.json", "routes", "table.eskip", "table.eskip.kept.json", "table.eskip.state"}, name):
		case random != "" && slices.Contains([]string{".proof.json", ".routes", ".table.eskip", ".table.eskip.kept.json", ".table.eskip.state"}, name):
		default:
			t.Errorf("%s was left", e.Name())
		}
	}
	p := startProcess(t, "--upstream=http://127.0.0.1:1", "--state-dir="+dir, "--routes-file="+dir+"/routes")
	p.until("table of the last-known-good file", func() bool { return p.status().Ready })
	p.terminate()
	entries, err = os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if diff := cmp.Diff([]string{"control", "lock", "proof.json", "routes", "table.eskip"}, names); diff != "" {
		t.Errorf("files after a normal start and end (-want +got):\n%s", diff)
	}
}

// TestNothingInThePlaceOfAFileIsInTheWay: the program starts, serves, reports what is wrong, and exits when it is told to.
func TestNothingInThePlaceOfAFileIsInTheWay(t *testing.T) {
	tab := tableOf(t, 10, 5)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answerWith(w, tab) }))
	defer server.Close()
	fifo := func(path string) error { return syscall.Mkfifo(path, 0o600) }
	for name, put := range map[string]func(path string) error{
		"FIFO": fifo, "folder": func(path string) error { return os.MkdirAll(path+"/x", 0o700) },
		"device":         func(path string) error { return os.Symlink("/dev/zero", path) },
		"link to itself": func(path string) error { return os.Symlink(path, path) },
		"20 GB": func(path string) error {
			return errors.Join(os.WriteFile(path, []byte("// routesrv table, version 1\n"), 0o600), os.Truncate(path, 20<<30))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, file := range []string{"table.eskip", "proof.json", "routes", "mode", "zone"} {
				if err := put(filepath.Join(dir, file)); err != nil {
					t.Fatal(err)
				}
			}
			p := startProcess(t, "--upstream="+server.URL, "--update-mode=poll", "-source-poll-timeout=50", "--state-dir="+dir,
				"--mode-file="+dir+"/mode", "--zone-file="+dir+"/zone")
			p.until("table", func() bool { s := p.status(); return s.Ready && s.Table.Routes == 10 })
			p.until("last-known-good file", func() bool { return p.status().Fetch.LastKnownGood.Written != "" })
			if s := p.status().Fetch.LastKnownGood; s.Unusable == "" || s.Error != "" {
				t.Errorf("status of the last-known-good file %+v, want why it could not be used", s)
			}
			p.terminate()
			if n := strings.Count(p.log.String(), "last-known-good file is not usable"); n != 1 {
				t.Errorf("said %d times what is wrong with the last-known-good file", n)
			}
			f, err := os.Open(dir + "/table.eskip")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			data, err := io.ReadAll(io.LimitReader(f, 1<<20))
			if err != nil {
				t.Fatal(err)
			}
			if got, _, err := table.ReadFile(bytes.NewReader(data)); err != nil || got.Digest() != tab.Digest() {
				t.Errorf("the last-known-good file has %v (%v)", got, err)
			}
		})
	}
}

// TestFIFOInPlaceOfSettingsIsNoHang: a FIFO in place of a certificate or the configuration is a clear error.
func TestFIFOInPlaceOfSettingsIsNoHang(t *testing.T) {
	path := binary(t, "dataplane-client")
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--upstream-tls=ca=" + fifo}, {"--upstream-tls=cert=" + fifo + ",key=" + fifo}, {"-config-file=" + fifo},
	} {
		cmd := exec.CommandContext(t.Context(), path, append([]string{"--mode=Exec", "--upstream=https://localhost"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() != program.ExitUnusable || !bytes.Contains(out, []byte("FIFO")) {
			t.Errorf("%s: %v, want the file and that it is a FIFO:\n%s", args[0], err, out)
		}
	}
}

// eventually waits for a matching line and returns its first group.
func eventually(t *testing.T, b *programs.Buffer, line *regexp.Regexp) string {
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
