// Package program has what the main packages share: streams, signals, exit statuses, and parts that they build from their options.
package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	// The container image has no other authorities of the public web.
	_ "golang.org/x/crypto/x509roots/fallback"
	"golang.org/x/term"

	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/shadowdiff"
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

	InTerminal, OutTerminal bool
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Main runs a program and exits with its status. The first SIGTERM or interrupt ends the context, the second one the process.
func Main(run func(ctx context.Context, args, environ []string, std Stdio) (status int)) {
	setGCPercent()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop)
	status := run(ctx, os.Args[1:], os.Environ(), Stdio{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTerminal: isTerminal(os.Stdin), OutTerminal: isTerminal(os.Stdout),
	})
	stop()
	os.Exit(status)
}

// Status is an exit status that a command returns as its error, after it has printed what there is to say.
type Status int

// Error implements error.
func (s Status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// StatusError returns the error of a command, or else that for an exit status, nil for [ExitOK].
func StatusError(status int, err error) error {
	if err == nil && status != ExitOK {
		return Status(status)
	}
	return err
}

// Execute runs the command that the arguments name, prints an error that is no Status, and returns the exit status.
func Execute(ctx context.Context, root *cobra.Command, version string, args []string, std Stdio) int {
	root.Version = VersionName(version)
	text := fmt.Sprintf("%s %s %s %s/%s\n", root.Name(), root.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	root.SetVersionTemplate(text)
	root.AddCommand(&cobra.Command{Use: "version", Short: "Prints the version.", Args: cobra.NoArgs, Run: func(*cobra.Command, []string) {
		fmt.Fprint(std.Out, text)
	}})
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetIn(std.In)
	root.SetOut(std.Out)
	root.SetErr(std.Err)
	cmd, err := options.SetArgs(root, args)
	if err == nil {
		cmd, err = root.ExecuteContextC(ctx)
	}
	status, isStatus := errors.AsType[Status](err)
	switch {
	case err == nil || errors.Is(err, options.ErrChecked):
		return ExitOK
	case isStatus:
		return int(status)
	}
	hint := ""
	for _, one := range Unjoined(err) {
		if e, ok := errors.AsType[*options.Error](one); ok && e.Flag == "" {
			hint = fmt.Sprintf("See %s --help.\n", cmd.CommandPath())
		}
		fmt.Fprintf(std.Err, "%s: %s\n", cmd.CommandPath(), shadowdiff.PrintableLines(strings.ReplaceAll(strings.TrimSpace(one.Error()), "\t", "    ")))
	}
	fmt.Fprint(std.Err, hint)
	return ExitUnusable
}

// Unjoined returns the errors that were joined; none if err is nil.
func Unjoined(err error) (all []error) {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range j.Unwrap() {
			all = append(all, Unjoined(one)...)
		}
	} else if err != nil {
		all = append(all, err)
	}
	return all
}

// Resolved prints warnings, and the result of --check-config, and returns err, that of [options.Flags.Resolve].
func Resolved(cmd *cobra.Command, f *options.Flags, err error) error {
	for _, w := range f.Warnings() {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: %v\n", cmd.Root().CommandPath(), w)
	}
	if errors.Is(err, options.ErrChecked) {
		fmt.Fprintln(cmd.OutOrStdout(), "configuration is valid")
	}
	return err
}

// Service is what a program runs until it must stop.
type Service interface {
	// Run returns nil when ctx has ended.
	Run(ctx context.Context) error
	// Reload is called for each SIGHUP. It must not block.
	Reload()
}

// Serve returns the function of a command that serves until the context ends. No other process may use the folder stateDir, unless it is
// empty. build makes the service once the flags are resolved. A SIGHUP reloads the service.
func Serve(f *options.Flags, env options.Env, logging *options.Log, stateDir *string, build func(*slog.Logger) (Service, error),
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		hup := make(chan os.Signal, 1)
		signal.Notify(hup, syscall.SIGHUP)
		defer signal.Stop(hup)
		if err := f.Resolve(args, env); err != nil {
			return Resolved(cmd, f, err)
		}
		unlock, err := durable.Lock(*stateDir)
		if err != nil {
			return fmt.Errorf("--state-dir: %w", err)
		}
		defer unlock()
		log := NewLogger(*logging, cmd.ErrOrStderr())
		for _, w := range f.Warnings() {
			log.Warn("configuration", "flag", w.Flag, "where", w.Where, "warning", w.Err)
		}
		s, err := build(log)
		if err != nil {
			return err
		}
		ctx, end := context.WithCancel(cmd.Context())
		var reloading sync.WaitGroup
		reloading.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-hup:
					s.Reload()
				}
			}
		})
		err = s.Run(ctx)
		end()
		reloading.Wait()
		if err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", cmd.CommandPath(), err)
			return Status(ExitFailed)
		}
		return nil
	}
}

// gcPercent trades a little CPU time for memory: nearly all of the heap is long-lived, and the default would allow as much garbage again.
// docs/internals/performance.md compares values.
const gcPercent = 30

// setGCPercent sets gcPercent unless GOGC is set.
func setGCPercent() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// Env returns the sources of settings of a process.
func Env(environ []string) options.Env {
	const largest = 1 << 20
	return options.Env{Environ: environ, ReadFile: func(name string) ([]byte, error) { return durable.ReadFile(name, largest) }}
}

// VersionName returns the release, which the linker sets, or else the version in the build information.
func VersionName(linked string) string {
	if info, ok := debug.ReadBuildInfo(); linked == "" && ok {
		linked = info.Main.Version
	}
	return cmp.Or(linked, "devel")
}
