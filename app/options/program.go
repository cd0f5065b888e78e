package options

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	// The container image has no files except the programs, so the programs contain the authorities of the public web. They apply
	// only where the system has none.
	_ "golang.org/x/crypto/x509roots/fallback"
	"golang.org/x/term"

	"github.com/routesrv/routesrv/internal/durable"
)

// Exit statuses.
const (
	ExitOK       = 0
	ExitFailed   = 1 // it failed after it had started; for compile: there are problems; for diff: there are differences; for match: no route
	ExitUnusable = 2 // the arguments or the configuration are invalid
)

// Stdio holds the standard streams of a process. The booleans say which of them are terminals.
type Stdio struct {
	In       io.Reader
	Out, Err io.Writer

	InTerminal, OutTerminal, ErrTerminal bool
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Main runs a program with the arguments and environment of its process, and exits with the returned status. The first SIGTERM or
// interrupt ends the context. The second one ends the process at once, without draining.
func Main(run func(ctx context.Context, args, environ []string, std Stdio) (status int)) {
	setGCPercent()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop)
	status := run(ctx, os.Args[1:], os.Environ(), Stdio{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTerminal: isTerminal(os.Stdin), OutTerminal: isTerminal(os.Stdout), ErrTerminal: isTerminal(os.Stderr),
	})
	stop()
	os.Exit(status)
}

// Program describes a binary for its messages.
type Program struct {
	Name    string
	Version string // set by the linker in a release build
	// Usage is a line, with its newline, printed after an error in the configuration; empty for none.
	Usage string
}

// PrintVersion prints the version.
func (p Program) PrintVersion(std Stdio) { fmt.Fprintln(std.Out, VersionText(p.Name, p.Version)) }

// Configured prints the warnings and errors of a configuration. ok is false if the program must exit with the returned status.
func (p Program) Configured(warnings []Warning, err error, std Stdio) (status int, ok bool) {
	switch {
	case err == nil:
		return ExitOK, true
	case errors.Is(err, ErrHelp):
		return ExitOK, false
	case errors.Is(err, ErrVersion):
		p.PrintVersion(std)
		return ExitOK, false
	case errors.Is(err, ErrChecked):
		p.PrintWarnings(warnings, std)
		return ExitOK, false
	}
	p.PrintWarnings(warnings, std)
	p.PrintError(err, std)
	fmt.Fprint(std.Err, p.Usage)
	return ExitUnusable, false
}

// PrintWarnings prints each warning on its own line.
func (p Program) PrintWarnings(warnings []Warning, std Stdio) {
	for _, w := range warnings {
		fmt.Fprintf(std.Err, "%s: warning: %v\n", p.Name, w)
	}
}

// PrintError prints why the program ends.
func (p Program) PrintError(err error, std Stdio) { fmt.Fprintf(std.Err, "%s: %v\n", p.Name, err) }

// Service is what a program runs until it must stop.
type Service interface {
	// Run returns nil when ctx has ended.
	Run(ctx context.Context) error
	// Reload is called for each SIGHUP. It must not block.
	Reload()
}

// Serve configures a service and runs it until ctx ends. It returns the exit status. parse returns the configuration, with the parts that
// process returns: how to log, and the state folder, which no other process may use, or "". build makes the service with its logger. A
// SIGHUP reloads the service; unhandled, it would end the process without draining.
func Serve[C any](ctx context.Context, p Program, std Stdio, parse func() (*C, []Warning, error), process func(*C) (log Log, stateDir string),
	build func(*C, *slog.Logger, Stdio) (Service, error),
) (status int) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	cfg, warnings, err := parse()
	if status, ok := p.Configured(warnings, err, std); !ok {
		return status
	}
	logging, stateDir := process(cfg)
	unlock, err := durable.Lock(stateDir)
	if err != nil {
		p.PrintError(fmt.Errorf("--state-dir: %w", err), std)
		return ExitUnusable
	}
	defer unlock()
	log := NewLogger(logging, std.Err)
	for _, w := range warnings {
		log.Warn("configuration", "flag", w.Flag, "where", w.Where, "warning", w.Text)
	}
	s, err := build(cfg, log, std)
	if err != nil {
		p.PrintError(err, std)
		return ExitUnusable
	}
	ended, reloading := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(reloading)
		for {
			select {
			case <-ended:
				return
			case <-hup:
				s.Reload()
			}
		}
	}()
	err = s.Run(ctx)
	close(ended)
	<-reloading
	if err != nil {
		p.PrintError(err, std)
		return ExitFailed
	}
	return ExitOK
}

// gcPercent trades a little CPU time for memory: nearly all of the heap is the table and, in a program that computes one, the
// objects. They are long-lived, and the default would allow as much garbage again. A table that is being received must not take
// twice its size because of uncollected garbage. docs/internals/performance.md compares values.
const gcPercent = 30

// setGCPercent sets gcPercent unless GOGC is set.
func setGCPercent() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// ReadFile returns a function that reads the configuration file. The file may be a pipe without a writer, so the function returns
// when ctx ends; the read itself then continues until the process ends.
func ReadFile(ctx context.Context) func(path string) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	return func(path string) ([]byte, error) {
		done := make(chan result, 1)
		go func() {
			data, err := os.ReadFile(path)
			done <- result{data, err}
		}()
		select {
		case r := <-done:
			return r.data, r.err
		case <-ctx.Done():
			return nil, fmt.Errorf("read %q: %w", path, context.Cause(ctx))
		}
	}
}

// VersionText returns the version line of a program. linked is the version set by the linker in a release build.
func VersionText(program, linked string) string {
	return fmt.Sprintf("%s %s %s %s/%s", program, VersionName(linked), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// VersionName returns the release, or else what the build information says about the sources.
func VersionName(linked string) string {
	if linked != "" {
		return linked
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "devel-" + s.Value[:min(12, len(s.Value))]
		}
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "devel"
}

// MemoryLimit returns the memory limit of this process in bytes, from its cgroup and GOMEMLIMIT; 0 means no limit.
func MemoryLimit() int64 {
	limit := cgroupLimit(string(os.PathSeparator))
	if soft := debug.SetMemoryLimit(-1); soft < math.MaxInt64 && (limit == 0 || soft < limit) {
		limit = soft
	}
	return limit
}

// cgroupLimit returns the memory limit of the cgroup of this process and its parents; 0 means no limit. In a container the files of its
// own cgroup are at the top; elsewhere /proc/self/cgroup has its path. Cgroups of version 1, which Kubernetes no longer supports, count
// as no limit.
func cgroupLimit(root string) (limit int64) {
	own, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup")) // without it, this is the top
	path := ""
	for line := range strings.Lines(string(own)) {
		if rest, found := strings.CutPrefix(strings.TrimSpace(line), "0::"); found {
			path = rest
		}
	}
	for path = filepath.Clean("/" + path); ; path = filepath.Dir(path) {
		text, _ := os.ReadFile(filepath.Join(root, "sys/fs/cgroup", path, "memory.max"))
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 && (limit == 0 || n < limit) {
			limit = n
		}
		if path == "/" {
			return limit
		}
	}
}
