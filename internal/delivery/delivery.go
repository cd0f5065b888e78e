// Package delivery answers one question: did the body arrive?
//
// Some clients, such as Skipper, remember the ETag before the body has arrived. After a cut connection a 304 would leave them
// with half a table, so a handler asks a [Ledger] before it answers 304. A body counts as broken off if writing it failed, if the
// request was cancelled meanwhile, or if the connection was closed before the peer acknowledged the last byte. Detecting the last
// case requires [WrapListener] and [Track], because the kernel's buffer can hold a whole body.
//
// # Use
//
// Before it writes a body, a handler asks [Ledger.Rotation] for the name of the body and calls [Ledger.Begin]; after the last
// byte it calls [Body.End]. When a client names a body that it has, [Ledger.Arrived] reports whether that can be true. If the
// client names none, use [Ledger.Whole].
//
// A rotation counts how often a body broke off at one address, and is part of the body's name. A client with half a body is
// therefore never told that it has the whole one, and other clients behind the same address download it at most once more. A
// request that names a body just sent to the same address on another connection waits up to 20 ms for that connection to break.
//
// # Limits
//
// The ledger is in memory: a restart empties it. It holds at most maxBroken (4096) broken bodies and forgets the least recently
// named one first. In three cases it does not notice that a client gave up after the last byte was handed to the kernel: over
// HTTP/2; over TLS if the client asked to close the connection; and on systems other than Linux, unless the peer resets the
// connection. Clients are identified by address, because nothing else distinguishes two Skippers.
package delivery
