package httpserve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/routesrv/routesrv/api"
)

// controlFolder has mode 0700, and the socket in it 0600. The state folder itself may have another owner.
const (
	controlFolder = "control"
	controlSocket = "socket"
)

// ErrNoControl reports that no process listens on the control socket of a state folder.
var ErrNoControl = errors.New("no process listens on the control socket")

// ListenControl opens the control socket of a state folder, and replaces one that another process has left. Requests that change
// the served table are accepted only there: a proxy forwards requests of tenants to any address, but never to a file.
func ListenControl(state string) (net.Listener, error) {
	folder := filepath.Join(state, controlFolder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(folder, 0o700); err != nil {
		return nil, err
	}
	var l *net.UnixListener
	err := inFolder(folder, func(short string) (err error) {
		// Create it under another name and rename it: the socket never has another mode, and always leads to the newest process.
		path := filepath.Join(short, controlSocket+".new")
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if l, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}); err != nil {
			return err
		}
		l.SetUnlinkOnClose(false)
		if err = os.Chmod(path, 0o600); err == nil {
			err = os.Rename(path, filepath.Join(short, controlSocket))
		}
		if err != nil {
			_ = l.Close()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// DialControl connects to the process that listens on the control socket of a state folder, or returns [ErrNoControl].
func DialControl(ctx context.Context, state string) (conn net.Conn, err error) {
	folder := filepath.Join(state, controlFolder)
	err = inFolder(folder, func(short string) (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(short, controlSocket))
		return err
	})
	if err != nil {
		path := filepath.Join(folder, controlSocket)
		if errors.Is(err, fs.ErrPermission) {
			return nil, fmt.Errorf("%s: permission denied: run this as the user of the process", path)
		}
		if failed, ok := errors.AsType[*net.OpError](err); ok {
			err = failed.Err // without the path of inFolder
		}
		return nil, fmt.Errorf("%s: %w (%v)", path, ErrNoControl, err)
	}
	return conn, nil
}

// inFolder calls f with a short path of an existing folder: the address of a Unix socket has at most 107 bytes.
func inFolder(folder string, f func(short string) error) error {
	const longest = 107 - len("/"+controlSocket+".new")
	if len(folder) <= longest || runtime.GOOS != "linux" {
		return f(folder)
	}
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer d.Close()
	return f("/proc/self/fd/" + strconv.Itoa(int(d.Fd())))
}

// Peer is the process at the other end of a control socket, as the kernel knows it.
type Peer struct{ UID, PID int }

// String identifies the peer in the record of its decisions.
func (p Peer) String() string { return "uid " + strconv.Itoa(p.UID) }

// peerKey is the key of the [Peer] in the context of a request.
type peerKey struct{}

// Attach returns a context of requests that the peer sends over the control socket.
func (p Peer) Attach(ctx context.Context) context.Context {
	return context.WithValue(ctx, peerKey{}, p)
}

// PeerOf returns the sender of a request over the control socket. It returns false for all other listeners.
func PeerOf(ctx context.Context) (Peer, bool) {
	p, ok := ctx.Value(peerKey{}).(Peer)
	return p, ok
}

// Control returns the handler of the control socket, for root and the user of this process. Other paths are those of support.
func Control(endpoints []Endpoint, support http.Handler) http.Handler {
	mux := Mux(ControlListener, endpoints)
	mux.Handle("/", support)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p, ok := PeerOf(r.Context()); !ok || p.UID != 0 && p.UID != os.Geteuid() {
			WriteJSON(w, http.StatusForbidden, api.Error{Error: "only for root and the user of this process"})
			return
		}
		mux.ServeHTTP(w, r)
	})
}
