//go:build linux

package sandbox

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Network is an isolated network: a loopback interface with some addresses and nothing else. Other networks cannot reach its
// listeners, and its ports cannot conflict with others. The caller accesses it with Listen and Dial.
type Network struct {
	ns *os.File
}

// NewNetwork creates a network. It has the loopback addresses and the given IPv4 addresses.
func NewNetwork(addresses ...netip.Addr) (*Network, error) {
	n := &Network{}
	result := make(chan error, 1)
	onThread(func() {
		result <- func() (err error) {
			if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("network namespace: %w%s", err, hint(err))
			}
			if err = configure(addresses); err != nil {
				return fmt.Errorf("loopback interface: %w", err)
			}
			n.ns, err = os.Open("/proc/thread-self/ns/net")
			return err
		}()
	})
	if err := <-result; err != nil {
		return nil, err
	}
	return n, nil
}

// Close releases the network. It exists until its last process and socket end; Listen and Dial fail from now on.
func (n *Network) Close() error { return n.ns.Close() }

// Listen is net.Listen in the network, for TCP on an IP address.
func (n *Network) Listen(at netip.AddrPort) (l net.Listener, err error) {
	inside := n.do(func() { l, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at)) })
	if inside != nil {
		return nil, inside
	}
	return l, err
}

// Dial is net.Dialer.DialContext in the network, for TCP to an IP address.
func (n *Network) Dial(ctx context.Context, to netip.AddrPort) (c net.Conn, err error) {
	// An IP address, not a name: net uses no other goroutines, which would run outside the network.
	inside := n.do(func() { c, err = new(net.Dialer).DialContext(ctx, "tcp", to.String()) })
	if inside != nil {
		return nil, inside
	}
	return c, err
}

// do calls f on a thread in the network: a socket belongs to the network of the thread that creates it.
func (n *Network) do(f func()) error {
	result := make(chan error, 1)
	onThread(func() {
		err := n.enter()
		if err == nil {
			f()
		}
		result <- err
	})
	return <-result
}

// enter moves the thread to the network. It keeps the file open meanwhile: a concurrent Close waits.
func (n *Network) enter() error {
	conn, err := n.ns.SyscallConn()
	if err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	var inside error
	if err := conn.Control(func(fd uintptr) { inside = unix.Setns(int(fd), unix.CLONE_NEWNET) }); err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	if inside != nil {
		return fmt.Errorf("network namespace: %w", inside)
	}
	return nil
}

// configure starts the loopback interface of the thread's network.
func configure(addresses []netip.Addr) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return err
	}
	for i, a := range addresses {
		alias, err := unix.NewIfreq(fmt.Sprintf("lo:%d", i+1))
		if err != nil {
			return err
		}
		if err := alias.SetInet4Addr(a.AsSlice()); err != nil {
			return fmt.Errorf("%v: %w", a, err)
		}
		if err := unix.IoctlIfreq(fd, unix.SIOCSIFADDR, alias); err != nil {
			return fmt.Errorf("%v: %w", a, err)
		}
		// Otherwise the kernel treats the whole class of addresses as local.
		if err := alias.SetInet4Addr([]byte{255, 255, 255, 255}); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(fd, unix.SIOCSIFNETMASK, alias); err != nil {
			return fmt.Errorf("%v: mask: %w", a, err)
		}
	}
	return nil
}
