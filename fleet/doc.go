// Package fleet knows who holds which table: every client of a route server, by what it asks for and what it reports.
//
// A [Registry] is told about each request and each stream ([Registry.Saw]), each report ([Registry.Reported]) and each table that is
// published ([Registry.Published]). It gives a [View] of its own clients, and [Merge] joins the views of several replicas. A
// [Reporter] is the other side: it sends the reports of a sidecar or a relay.
//
// # States
//
// A client is judged by the tables that its replica has published, which are numbered. It is current if it holds the last one, or one
// that the replica does not know and cannot be sure to be older; behind if it holds an earlier one, or one that is not known; rejected if its last report
// says why it does not take the table; and silent if nothing was heard for three of its intervals. Silent wins over rejected, and
// rejected over the others.
//
// # What is believed
//
// Everything here is what clients say. An id is a claim, as a digest is: whoever may fetch tables may claim any id. So nothing that
// decides about tables reads this package, no request goes to an address that a client names, and texts are checked and cut
// before they are kept.
//
// # Limits
//
// A Registry has at most Config.Max clients, and from one address at most [MaxPerAddress] with an id and [MaxInferredPerAddress]
// without one. A full Registry takes new clients in place of silent ones only. Silent ones leave after [Forget].
//
// # What it does not do
//
// It serves no HTTP, and fetches nothing: package server has the endpoints, and asks the peers.
package fleet
