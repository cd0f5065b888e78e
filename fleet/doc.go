// Package fleet tracks which client holds which table: every client of a route server, from its requests and its reports.
//
// A [Registry] is told about each request and stream ([Registry.Saw]), each report ([Registry.Reported]) and each published table
// ([Registry.Published]). It returns a [View] of its own clients, and [Merge] merges the views of several replicas. A [Reporter]
// is the other side: it sends the reports of a sidecar or a relay.
//
// # States
//
// A client is compared with the tables that its replica has published, which are numbered. It is current if it holds the last
// one, or an unknown one that may be newer; behind if it holds an earlier one, or any other unknown one; rejected if its last
// report says why it does not accept the table; and silent if nothing was heard for three of its intervals. Silent takes
// precedence over rejected, and rejected over the others.
//
// # Trust
//
// All data here comes from clients. An id is a claim, like a digest: every client that may fetch tables may claim any id.
// Therefore no decision about tables depends on this package, no request goes to an address that a client names, and texts are
// checked and truncated before they are stored.
//
// # Limits
//
// A Registry has at most Config.Max clients, and from one address at most [MaxPerAddress] with an id and [MaxInferredPerAddress]
// without one. A full Registry adds new clients only in place of silent ones. Silent clients are removed after [Forget].
//
// # What it does not do
//
// It serves no HTTP, and fetches nothing: package server has the endpoints, and asks the peers.
package fleet
