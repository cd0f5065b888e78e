// Package delivery answers one question: did the body arrive?
//
// Some clients remember the ETag before the body has arrived, as Skipper does. After a cut connection a 304 would leave them with
// half a table, so whoever decides about a 304 asks a [Ledger] first. A body is known to have broken off if writing it failed, if
// the request was cancelled during it, or if the connection was closed before the peer acknowledged its last byte. The last takes
// [WrapListener] and [Track], because the kernel's buffer can swallow a whole body.
//
// # Use
//
// Before it writes a body, a handler asks [Ledger.Rotation] for the name of the body and calls [Ledger.Begin]; after the last byte
// it calls [Body.End]. When a client says that it has a body, [Ledger.Arrived] tells whether that can be true, or
// [Ledger.Whole] if the client gives no name.
//
// Rotations count the breaks of one body at one address. They are part of its name, so that others behind the same address
// download at most once more, and the client with half a body is never told that it has all of it. A request that names a body
// which was just sent to the same address on another connection waits up to 20 ms for that connection to break off.
//
// # Limits
//
// The ledger is in memory: a restart empties it, and it forgets the body that was named longest ago after maxBroken (4096) others
// broke off. It does not notice what a client gives up after the last byte was handed to the kernel in three cases: over HTTP/2,
// over TLS if the client asked for the connection to be closed, and on systems other than Linux unless the peer resets the
// connection. Addresses stand for clients, because nothing else tells two Skippers apart.
package delivery
