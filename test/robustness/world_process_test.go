package robustness

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/record"
)

// Process is a built binary that runs as a member, and is restarted after each kill. Its methods are safe for concurrent use.
type Process struct {
	Name    string
	Main    string // HOST:PORT
	Support string // HOST:PORT
	Folder  string // of its files, including the log

	path string
	args []string
	env  []string
	rec  *record.Recorder

	mu      sync.Mutex
	cmd     *exec.Cmd
	done    chan struct{} // closed when the process has ended
	wanted  bool          // it should run
	crashes []string      // unexpected ends
	lines   func(logLine) // may be nil
}

// logLine is the part of a log line that the harness reads.
type logLine struct {
	Message  string `json:"msg"`
	Reason   string `json:"reason"`
	Mode     string `json:"mode"`
	File     string `json:"file"`
	Digest   string `json:"digest"`
	Revision uint64 `json:"revision"`
	Stale    bool   `json:"stale"`
	Kept     *int   `json:"kept"` // how many objects are still kept
}

// Running reports whether the process runs.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd != nil
}

// PID returns the number of the process; 0 if it is not running.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// OnLine makes f be called for every later line of the log.
func (p *Process) OnLine(f func(logLine)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = f
}

// Crashes returns the unexpected ends.
func (p *Process) Crashes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.crashes...)
}

// Start starts the process, unless it is running.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		return nil
	}
	log, err := os.OpenFile(filepath.Join(p.Folder, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(p.path, p.args...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.SysProcAttr = childAttributes()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.cmd, p.wanted, p.done = cmd, true, make(chan struct{})
	p.rec.Event(history.Event{At: p.rec.Now(), Member: p.Name, Name: "started"})
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewReader(stderr); ; {
			text, err := lines.ReadString('\n')
			if text != "" {
				_, _ = log.WriteString(text)
				p.line(text)
			}
			if err != nil {
				return
			}
		}
	}()
	go p.await(cmd, log, read, p.done)
	return nil
}

// await waits for the end of the process.
func (p *Process) await(cmd *exec.Cmd, log *os.File, read, done chan struct{}) {
	<-read
	err := cmd.Wait()
	fmt.Fprintf(log, "-- ended: %v at %v\n", cmd.ProcessState, p.rec.Now())
	_ = log.Close()
	p.mu.Lock()
	if p.wanted {
		p.crashes = append(p.crashes, fmt.Sprintf("%s ended by itself after %v: %v", p.Name, p.rec.Now().Round(time.Millisecond), err))
	}
	p.cmd = nil
	p.mu.Unlock()
	p.rec.Event(history.Event{At: p.rec.Now(), Member: p.Name, Name: "ended", Args: fmt.Sprint(cmd.ProcessState)})
	close(done)
}

// Log messages of the binaries that the harness uses.
const (
	messageHeld     = "suspicious table held back"
	messageReleased = "held table released"
	messageHoldEnds = "hold ended: the source shows a table that is fine"
	messageKept     = "objects are kept at their served versions"
	messageResumed  = "objects that the previous process kept stay kept"
	messageBack     = "kept objects are back"
	messageLetGo    = "kept objects released"
	messageMode     = "mode changed"
	messageTable    = "table published"
)

func (p *Process) line(text string) {
	var l logLine
	if json.Unmarshal([]byte(text), &l) != nil {
		return // such as a report of the race detector, which stays in the log
	}
	e := history.Event{At: p.rec.Now(), Member: p.Name}
	switch l.Message {
	case messageHeld:
		e.Name, e.Args = "held", l.Reason
	case messageReleased, messageHoldEnds:
		e.Name, e.Args = "released", l.Reason
	case messageKept:
		e.Name, e.Args = "kept", l.Reason
	case messageResumed:
		e.Name = "resumed"
	case messageLetGo:
		e.Name = "released"
	case messageBack:
		if l.Kept != nil && *l.Kept == 0 {
			e.Name = "released"
		}
	case messageMode:
		e.Name, e.Args = "mode", l.Mode
	case messageTable:
		p.rec.Publication(history.Publication{At: e.At, Member: p.Name, Digest: l.Digest, Revision: l.Revision, Stale: l.Stale})
	}
	if e.Name != "" {
		p.rec.Event(e)
	}
	p.mu.Lock()
	f := p.lines
	p.mu.Unlock()
	if f != nil {
		f(l)
	}
}

// Kill ends the process as the kernel does when memory runs out. It does not wait for the end, so that nothing delays the kill;
// Gone waits.
func (p *Process) Kill(point string) {
	p.mu.Lock()
	cmd := p.cmd
	if cmd == nil || !p.wanted {
		p.mu.Unlock()
		return
	}
	p.wanted = false
	_ = cmd.Process.Kill()
	p.mu.Unlock()
	p.rec.Event(history.Event{At: p.rec.Now(), Member: p.Name, Name: "killed", Args: point})
}

// Gone waits until the process has ended.
func (p *Process) Gone() {
	p.mu.Lock()
	cmd, done := p.cmd, p.done
	p.mu.Unlock()
	if cmd != nil {
		<-done
	}
}

// Stop freezes the process; Continue resumes it.
func (p *Process) Stop() {
	if p.signal(syscall.SIGSTOP) {
		p.rec.Event(history.Event{At: p.rec.Now(), Member: p.Name, Name: "stopped"})
	}
}

// Continue resumes a frozen process.
func (p *Process) Continue() {
	if p.signal(syscall.SIGCONT) {
		p.rec.Event(history.Event{At: p.rec.Now(), Member: p.Name, Name: "continued"})
	}
}

func (p *Process) signal(s os.Signal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd != nil && p.cmd.Process.Signal(s) == nil
}

// End ends the process as Kubernetes does, and returns an error if the end is not clean.
func (p *Process) End(patience time.Duration) error {
	p.mu.Lock()
	cmd, done := p.cmd, p.done
	p.wanted = false
	p.mu.Unlock()
	if cmd == nil {
		return nil
	}
	_ = cmd.Process.Signal(syscall.SIGCONT)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-done:
		if code := cmd.ProcessState.ExitCode(); code != 0 {
			return fmt.Errorf("%s ended with %v on SIGTERM", p.Name, cmd.ProcessState)
		}
		return nil
	case <-time.After(patience):
		_ = cmd.Process.Signal(syscall.SIGQUIT) // for the stacks in the log
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-done
		}
		return fmt.Errorf("%s did not end %v after SIGTERM", p.Name, patience)
	}
}

// Ready reports whether the process has a table.
func (p *Process) Ready(client *http.Client) bool {
	resp, err := client.Get("http://" + p.Support + "/health")
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusNoContent
}

// Log returns the log of the process.
func (p *Process) Log() string {
	text, err := os.ReadFile(filepath.Join(p.Folder, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Races returns the reports of the race detector in the log, each with its first lines.
func (p *Process) Races() []string {
	var out []string
	for _, report := range strings.Split(p.Log(), "WARNING: DATA RACE")[1:] {
		lines := strings.SplitN(report, "\n", 14)
		out = append(out, p.Name+": data race:"+strings.Join(lines[:len(lines)-1], "\n"))
	}
	return out
}

// disk returns the size of the files of the process, without the log.
func (p *Process) disk() (size int64) {
	_ = filepath.WalkDir(p.Folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it was removed meanwhile
			}
			return err
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() && d.Name() != "log" {
			size += info.Size()
		}
		return nil
	})
	return size
}
