package cli

import "github.com/routesrv/routesrv/api"

// command describes a job. To add a command, add it to the table below, and write its job.
type command struct {
	name, args string
	min, max   int      // arguments in addition to the places and tables
	words      []string // first arguments, for completion
	inPod      bool     // it changes something, so routesrv runs it in the pod
	local      bool     // where places are URLs, it takes tables as arguments: URLs, files, or manifests that it compiles
	table      string   // the arguments that are tables
	beside     bool     // dataplane-client has it, too
	below      []command
	job        func() job

	short, long string // without short, it is hidden
	fails       string // when the exit status is 1
	examples    string // pairs of a comment and a call: see Program.examples
}

// tablesHelp describes the argument TABLE.
const tablesHelp = `A table is a file of routes, such as a last-known-good file; a file or folder of manifests; a URL, such as http://routesrv/routes or,
for a Skipper, http://10.2.0.7:9911/routes; or -, routes on standard input.`

// steeringHelp describes commands that change what is served.
const steeringHelp = `Shows what would change, and asks; without a terminal, use --yes or --dry-run. It goes to all replicas, in the pods.`

const declined = "you decline"

// commands returns all commands, in the order of the help.
func commands() []command {
	return []command{
		{
			name: "get", args: "PATH", min: 1, max: 1, beside: true, job: func() job { return runner(runGet) },
			short: "Prints a page of the process in this pod, such as /status.",
			long:  `docs/reference/endpoints.md lists the paths.`, fails: "the answer is negative",
			examples: `
# Mode, table and producers
get /status`,
		}, {
			name: "status", job: func() job { return &statusJob{wait: settleWait} },
			short: "Checks that every replica has a fresh table, holds nothing back and agrees with the others.",
			long: `A replica is unhealthy if its table is missing, not confirmed by a read since a restart, or older than --max-age; its source fails; its
guard holds something back, or harm was published; its last-known-good file cannot be written; or it keeps serving an older table than
another replica. Problems of objects are only counted.`, fails: "a replica is unhealthy",
			examples: `
# Is everything fine?
status @
# In every cluster whose context begins with prod-
status --contexts 'prod-*' @`,
		}, {
			name: "clients", job: func() job { return &clientsJob{} },
			short: "Lists the proxies that fetch the table, and which table each one holds.",
			long: `A client is current, behind, rejected or silent: no request for three of its intervals. It is forgotten after an hour. A name in brackets
is inferred from address and user agent. Silent clients may be deleted pods.`,
			fails: "a client has rejected a table or is behind for longer than --max-behind, or its proxy died of a table",
			examples: `
# Which proxy holds which table?
clients @`,
		}, {
			name: "problems", job: func() job { return &problemsJob{} },
			short: "Lists the Ingresses and RouteGroups that lost routes, and why.",
			long:  `The worst comes first.`, fails: "there is a problem of severity error or warning",
			examples: `
# What is wrong in the namespace shop?
problems -n shop @`,
		}, {
			name: "explain", args: "WHAT...", min: 1, max: 2, table: "PLACE", local: true, words: []string{"ingress", "routegroup"},
			job:   func() job { return &explainJob{} },
			short: "Explains why an Ingress, a RouteGroup, a route or a host doesn't work.",
			long: `WHAT is "ingress NAMESPACE/NAME" or "routegroup NAMESPACE/NAME" (ing and rg for short), the id of a route, or a host. PLACE is the
URL of the support listener of a route server, or a file or folder of manifests.`,
			fails: "something is wrong, the object does not exist, or the replicas disagree",
			examples: `
# Why does my Ingress answer 502?
explain ingress cart -n shop @
# Will it work once these manifests are applied?
explain routegroup shop/cart ./manifests`,
		}, {
			name: "match", args: "URL", min: 1, max: 1, table: "TABLE", local: true, job: func() job { return &matchJob{} },
			short: "Finds the route that a request reaches, without sending it.",
			long: tablesHelp + ` Without TABLE, kubectl routesrv queries every replica.

URL is that of the request, as for curl, or a path together with -H 'Host: NAME'. The request has only the headers of -H: if your load
balancer sets X-Forwarded-Proto, add it. An answer that depends on chance, on the state of a proxy or on a missing option is undecided:
every possible outcome is listed with its conditions.`,
			fails: "no route matches, it is undecided whether one does, or the replicas disagree",
			examples: `
# Which route takes this request?
match https://shop.example.org/cart @routes
# A POST with a header, from a client address that predicates check
match -X POST -H 'X-Beta: 1' --from 10.2.0.1 https://shop.example.org/cart ./routes.eskip`,
		}, {
			name: "diff", max: 1, table: "A B", local: true, job: func() job { return &diffJob{} },
			short: "Compares routing tables by meaning.",
			long: `The order of endpoints makes no difference, the order of filters does.
` + tablesHelp + `

Without arguments, kubectl routesrv compares the tables of all replicas with that of the first. With A alone, it compares A with the first replica.`,
			fails: "the tables differ",
			examples: `
# Do all replicas of this context serve the same?
diff --context prod-eu
# Does a proxy have the table of the route server?
diff --ignore endpoints @routes http://10.2.0.7:9911/routes`,
		}, {
			name: "held", beside: true, job: func() job { return runner(runHeld) },
			short: "Shows what the guard holds back, and how it differs from what is served.",
			long:  `The command accept publishes it.`, fails: "something is held",
			examples: `
# What is held, and why?
held @`,
		}, {
			name: "log", job: func() job { return &logJob{} },
			short: "Shows what was served when: the history of objects.",
			long: `An entry is a change of what is served: objects with their field managers, routes, what was kept, accepted and frozen and by whom, and
takeovers. Changes of endpoints alone make none. Replicas number their entries differently; the command queries the one that remembers
most, and names it.`, fails: "there is no entry",
			examples: `
# What changed in the last hour?
log @ --since 1h
# What did the fleet serve at 12:03?
log @ --at 12:03`,
		}, {
			name: "show", args: "ENTRY", min: 1, max: 1, job: func() job { return runner(runShow) },
			short: "Shows an entry of the history with the routes that it changed.",
			long:  `ENTRY is a number that log shows.`, fails: "the replica has no such entry",
			examples: `
# What did entry 42 change?
show @ 42`,
		}, {
			name: "freeze", inPod: true, job: func() job { return &steerJob{order: api.SteerFreeze} },
			short: "Keeps objects at the versions that are served now.",
			long:  "Changes, deletions and new objects wait. Endpoints and all other objects stay live.\n\n" + steeringHelp, fails: declined,
			examples: `
# Freeze a namespace for a sale
freeze -n shop --for 2h --why 'sale'`,
		}, {
			name: "unfreeze", inPod: true, job: func() job { return &steerJob{order: api.SteerRelease} },
			short: "Ends freezes and pins.",
			long:  "From then on the newest versions are served, unless the guard, a trial or a policy keeps them.\n\n" + steeringHelp, fails: declined,
			examples: `
# End what rollback and freeze have begun in a namespace
unfreeze -n shop`,
		}, {
			name: "rollback", args: "[ENTRY]", max: 1, inPod: true, job: func() job { return &steerJob{order: api.SteerRollback} },
			short: "Takes objects back to the versions of an entry of the history or of a time.",
			long: `The objects are pinned, with the endpoints of today, for --for or until unfreeze. A deleted object comes back, and one that is newer than
the entry is no longer served. With -n and --all, what is the same as then is frozen as well. Warnings name what cannot be honoured,
such as a Service without endpoints, and routes that lose an authentication filter.

` + steeringHelp, fails: declined,
			examples: `
# Take one object back to what it was
rollback 41 --object Ingress/shop/cart --why 'checkout is broken'
# Bring back what was deleted since 03:34
rollback --to 03:34 --deleted --all --why 'a cluster was deleted'`,
		}, {
			name: "canary", job: func() job { return runner(runCanary) },
			short: "Lists what soaks on the canary, and what its query returned.",
			long: `A change is served to the canary alone for the soak time (--canary). An object that keeps changing is promoted after three soak times at
the latest. A halted change is served to nobody until it is accepted, or the object has a new version.`,
			fails: "something was halted, or the query fires or is not answered",
			examples: `
# What reaches the fleet next, and who changed it?
canary @`,
			below: []command{{
				name: "accept", inPod: true, job: func() job { return &steerJob{order: api.SteerPromote} },
				short: "Promotes what soaks or was halted, at once.", long: steeringHelp, fails: declined,
				examples: `
# The fleet gets an urgent change now
canary accept --object Ingress/shop/cart --why 'checkout is broken'`,
			}, {
				name: "halt", inPod: true, job: func() job { return &steerJob{order: api.SteerHalt} },
				short: "Takes back from the canary what soaks, and keeps it from the fleet.", long: steeringHelp, fails: declined,
				examples: `
# The canary has errors that the query does not see
canary halt -n shop --why 'customers complain'`,
			}},
		}, {
			name: "accept", args: "DIGEST", min: 1, max: 1, inPod: true, beside: true, job: func() job { return &acceptJob{} },
			short: "Publishes what is held, on every replica that holds it.",
			long: `Take DIGEST from the command held. -n and --object release some of the kept objects. The command shows the differences and asks before it
publishes; without a terminal, use --yes. kubectl routesrv accept runs it in each pod, as kubectl exec does, and records the user that
the API server knows you as.`, fails: "a replica holds nothing or something else, or you decline",
			examples: `
# Publish what is held
accept 4f2a…c01d --why 'shop moved to another cluster'`,
		},
		{name: "post", args: "PATH FORM", min: 2, max: 2, inPod: true, job: func() job { return runner(runPost) }}, // for kubectl routesrv
	}
}
