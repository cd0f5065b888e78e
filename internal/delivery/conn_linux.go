package delivery

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// States of a connection in TCP_INFO (tcp(7)). A peer that closes a socket with unread data, or receives data after it has
// closed, sends a reset, which moves our side to the state closed.
const (
	tcpEstablished = 1
	tcpFinWait1    = 4 // we have closed our direction; the peer has not
	tcpFinWait2    = 5
	tcpCloseWait   = 8
)

// stateOf returns the state of conn, or connOpen if conn is not TCP.
func stateOf(conn net.Conn) connState {
	state := connOpen
	control(conn, func(fd int) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		switch {
		case err != nil: // not TCP
		case info.State == tcpEstablished, info.State == tcpFinWait1, info.State == tcpFinWait2:
		case info.State == tcpCloseWait:
			state = connPeerClosed
		default:
			state = connBroken
		}
	})
	return state
}

// unacknowledged returns how many bytes written to conn the peer has not acknowledged, or 0 if unknown.
func unacknowledged(conn net.Conn) int {
	n := 0
	control(conn, func(fd int) {
		if pending, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ); err == nil {
			n = pending
		}
	})
	return n
}

// control calls f with the descriptor of conn, unless conn has none or is closed on this side.
func control(conn net.Conn, f func(fd int)) {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := sc.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) }) // the error means closed
	}
}
