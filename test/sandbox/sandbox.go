//go:build linux

// Package sandbox runs a program as a container does: in its own read-only file system, as an unprivileged user, in its own
// network. It is for tests, and needs only the kernel.
//
// Root can use it directly; other users must call Enter first. It does not imitate other features of container runtimes: limits
// on memory and CPUs, seccomp, a separate process table.
package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Config describes the program and its environment.
type Config struct {
	// Root is the folder that becomes the program's file system. Start creates mount points in it.
	Root string
	// Writable lets the program write to Root where its user has permission. Otherwise Root is read-only.
	Writable bool
	// Mounts are additional files and folders.
	Mounts []Mount
	// UID, GID and Groups are the identity of the program. It cannot gain more rights.
	UID, GID uint32
	Groups   []uint32
	// Args is the program, as an absolute path, and its arguments. Env is its whole environment.
	Args, Env []string
	// Network is its network; nil means the caller's. Hostname is its host name; empty means the machine's.
	Network  *Network
	Hostname string
	// Stdout and Stderr receive its output; nil discards it. They must not block.
	Stdout, Stderr io.Writer
}

// Mount makes a file or folder of the caller visible to the program.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// Process is a started program. Its methods are safe for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // set when done is closed
}

// Start starts the program. The kernel kills it if the caller's process ends first.
func Start(c Config) (*Process, error) {
	if len(c.Args) == 0 || !filepath.IsAbs(c.Args[0]) {
		return nil, fmt.Errorf("program %q: want an absolute path", c.Args)
	}
	p := &Process{done: make(chan struct{})}
	started := make(chan error, 1)
	onThread(func() {
		defer close(p.done)
		err := c.enter()
		if err == nil {
			p.cmd, err = c.command()
		}
		if err == nil {
			err = p.cmd.Start()
		}
		started <- err
		if err == nil {
			p.err = p.cmd.Wait() // on this thread, because its end would kill the program
		}
	})
	if err := <-started; err != nil {
		<-p.done
		return nil, fmt.Errorf("start %s in %s: %w", c.Args[0], c.Root, err)
	}
	return p, nil
}

// Signal sends a signal. It fails after the program has ended.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Done is closed when the program has ended and all its output has been passed on.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end and returns the result of exec.Cmd.Wait.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// onThread runs f on a new thread that ends with it, together with the namespaces that f has entered.
func onThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		// The first thread of a process represents it in /proc and never ends, so keep it busy until another thread exists.
		other := make(chan struct{})
		onThread(func() { defer close(other); f() })
		<-other
		runtime.UnlockOSThread()
	}()
}

// enter moves the thread to the namespaces of the program and mounts its file system there.
func (c Config) enter() error {
	if c.Network != nil {
		if err := c.Network.enter(); err != nil {
			return err
		}
	}
	if c.Hostname != "" {
		if err := unix.Unshare(unix.CLONE_NEWUTS); err != nil {
			return fmt.Errorf("namespace of the host name: %w%s", err, hint(err))
		}
		if err := unix.Sethostname([]byte(c.Hostname)); err != nil {
			return fmt.Errorf("host name %q: %w", c.Hostname, err)
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount namespace: %w%s", err, hint(err))
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	mounts := append([]Mount{{c.Root, "/", !c.Writable}}, c.Mounts...)
	mounts = append(mounts,
		Mount{"/proc", "/proc", true}, Mount{"/dev/null", "/dev/null", false}, Mount{"/dev/urandom", "/dev/urandom", true})
	for i := range mounts[1:] {
		if err := place(c.Root, mounts[i+1]); err != nil {
			return fmt.Errorf("place for %s: %w", mounts[i+1].Target, err)
		}
	}
	for _, m := range mounts {
		if err := m.mount(c.Root); err != nil {
			return fmt.Errorf("mount %s at %s: %w", m.Source, m.Target, err)
		}
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// place creates the folder or the empty file that a mount covers.
func place(dir string, m Mount) error {
	info, err := os.Stat(m.Source)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	target := strings.TrimPrefix(filepath.Clean(m.Target), "/")
	if info.IsDir() {
		return root.MkdirAll(target, 0o755)
	}
	if err := root.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(target, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

func (m Mount) mount(root string) error {
	target := filepath.Join(root, m.Target)
	if err := unix.Mount(m.Source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	if !m.ReadOnly {
		return nil
	}
	// Repeat the mount's existing restrictions, or the kernel refuses the change in a user namespace.
	var fs unix.Statfs_t
	if err := unix.Statfs(target, &fs); err != nil {
		return err
	}
	keep := uintptr(fs.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME | unix.MS_RELATIME)
	return unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|keep, "")
}

// command returns the program as a child of the thread that has entered the namespaces.
func (c Config) command() (*exec.Cmd, error) {
	all, err := mapped(c.UID)
	if err != nil {
		return nil, err
	}
	attr := &syscall.SysProcAttr{
		Chroot: c.Root, Pdeathsig: syscall.SIGKILL, Setpgid: true,
		Credential: &syscall.Credential{Uid: c.UID, Gid: c.GID, Groups: c.Groups},
	}
	if !all {
		// For a caller other than root, the user does not exist in the namespace: add another namespace in which it does.
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: int(c.UID), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: int(c.GID), HostID: os.Getgid(), Size: 1}}
		attr.Credential.Groups, attr.Credential.NoSetGroups = nil, true
	}
	return &exec.Cmd{
		Path: c.Args[0], Args: c.Args, Env: append([]string{}, c.Env...), Dir: "/", Stdout: c.Stdout, Stderr: c.Stderr, SysProcAttr: attr,
	}, nil
}

// mapped reports whether the user exists in the user namespace of the process.
func mapped(uid uint32) (bool, error) {
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(text)) {
		var inside, outside, size uint64
		if _, err := fmt.Sscan(line, &inside, &outside, &size); err != nil {
			return false, fmt.Errorf("/proc/self/uid_map: %q: %w", line, err)
		}
		if uint64(uid) >= inside && uint64(uid) < inside+size {
			return true, nil
		}
	}
	return false, nil
}

// hint tells how to fix missing permissions for namespaces.
func hint(err error) string {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) {
		return ": namespaces are not permitted here; run the tests as root in a machine or container that may make them " +
			"(CAP_SYS_ADMIN), or allow user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, " +
			"kernel.apparmor_restrict_unprivileged_userns)"
	}
	return ""
}

// Enter lets users other than root use this package: it runs the program again, with the same arguments, as root of a new user
// namespace. Then done is true, and the program must exit with the status. Call it first in TestMain.
func Enter() (status int, done bool) {
	if os.Getuid() == 0 {
		return 0, false
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(1, exit.ExitCode()), true
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "user namespace: %v%s\n", err, hint(err))
		return 1, true
	}
	return 0, true
}
