package etagcache_test

import (
	"net"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// heardOf waits until the kernel of the server knows that the client has closed the connection.
func (s *server) heardOf(t testing.TB, client net.Addr) {
	t.Helper()
	conn, ok := s.accepted.conns.Load(client.String())
	if !ok {
		t.Fatalf("no connection from %s", client)
	}
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return // already closed on this side
	}
	for established := true; established; {
		err := raw.Control(func(fd uintptr) {
			info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
			established = err == nil && info.State == 1 // TCP_ESTABLISHED
		})
		if err != nil {
			return // closed on this side
		}
		if established {
			runtime.Gosched()
		}
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
	}
}
