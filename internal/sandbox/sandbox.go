//go:build linux

// Package sandbox runs a program as a container does: in a file system of its own that it can only read, as a user that may
// do nothing, in a network of its own. It is for tests, and needs nothing but the kernel.
//
// Root may use it as it is. Anybody else calls Enter first. What a container runtime does beyond that is not imitated:
// limits of memory and processors, seccomp, a process table of its own.
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

// Config says what runs and where.
type Config struct {
	// Root is the folder that the program has as its file system. Places for the mounts are made in it.
	Root string
	// Writable lets the program write to Root where its user may. Else nobody can.
	Writable bool
	// Mounts are files and folders that the program has besides.
	Mounts []Mount
	// UID, GID and Groups are who it runs as. It can get no more rights than these have.
	UID, GID uint32
	Groups   []uint32
	// Args is the program, as an absolute path, and its arguments. Env is its whole environment.
	Args, Env []string
	// Network is the network that it has; nil is that of the caller. Hostname is its name there; empty is that of the machine.
	Network  *Network
	Hostname string
	// Stdout and Stderr get what it prints; nil drops it. They must not block.
	Stdout, Stderr io.Writer
}

// Mount makes a file or folder of the caller visible to the program.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// Process is a program that was started. Its methods may be called concurrently.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // set when done is closed
}

// Start starts the program. It is killed if the caller's process ends before it does.
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
			p.err = p.cmd.Wait() // on this thread: its end would kill the program
		}
	})
	if err := <-started; err != nil {
		<-p.done
		return nil, fmt.Errorf("start %s in %s: %w", c.Args[0], c.Root, err)
	}
	return p, nil
}

// PID is the number of the process, for the caller's process table.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal. It fails when the program has ended.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Done is closed when the program has ended and all that it printed was passed on.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end and gives what exec.Cmd.Wait does.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// onThread runs f on a thread of its own that ends with it, together with the namespaces that f has moved it to.
func onThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		// The first thread of a process stands for it in /proc and never ends: it is kept busy while another one is made.
		other := make(chan struct{})
		onThread(func() { defer close(other); f() })
		<-other
		runtime.UnlockOSThread()
	}()
}

// enter moves the thread to the namespaces of the program and makes its mounts there.
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

// place makes the folder or the empty file that a mount covers.
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
	// What the mount is forbidden already has to be said again, else the kernel refuses the change in a user namespace.
	var fs unix.Statfs_t
	if err := unix.Statfs(target, &fs); err != nil {
		return err
	}
	keep := uintptr(fs.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME | unix.MS_RELATIME)
	return unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|keep, "")
}

// command is the program as the child of a thread that has entered the namespaces.
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
		// The user does not exist in the namespace of somebody who is not root: one more in which it does.
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: int(c.UID), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: int(c.GID), HostID: os.Getgid(), Size: 1}}
		attr.Credential.Groups, attr.Credential.NoSetGroups = nil, true
	}
	return &exec.Cmd{
		Path: c.Args[0], Args: c.Args, Env: append([]string{}, c.Env...), Dir: "/", Stdout: c.Stdout, Stderr: c.Stderr, SysProcAttr: attr,
	}, nil
}

// mapped tells whether the user exists in the user namespace of the process.
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

// hint says what helps where namespaces are not permitted.
func hint(err error) string {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) {
		return ": namespaces are not permitted here; run the tests as root in a machine or container that may make them " +
			"(CAP_SYS_ADMIN), or allow user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, " +
			"kernel.apparmor_restrict_unprivileged_userns)"
	}
	return ""
}

// Enter lets anybody use this package: for whoever is not root the program starts again, with the same arguments, as the
// root of a user namespace of its own. Then done is true, and the program has to exit with the status. It is to be called
// first in TestMain.
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
