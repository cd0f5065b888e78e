package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/query"
	"github.com/routesrv/routesrv/shadowdiff"
)

// decision has the flags of the commands that change what is served.
type decision struct {
	namespaces, objects []string
	by, why             string
	yes, dry            bool
}

func (d *decision) define(flags *options.Flags) {
	flags.Add("-n,--namespace", options.Texts("NAME", &d.namespaces), "Only objects of this namespace.")
	flags.Add("--object", options.Texts("NAME", &d.objects), "Only this object, as KIND/NAMESPACE/NAME.")
	flags.Add("--by", options.Text("NAME", &d.by, ""),
		"Who decides this, in a pod; empty means the id of the user. kubectl routesrv asks the API server instead.")
	flags.Add("--why", options.Text("REASON", &d.why, ""), "The reason; required, except by unfreeze and canary accept.")
	flags.Add("--yes", options.Bool(&d.yes, false), "Do not ask.")
}

// form checks the decision, and returns its parameters.
func (d *decision) form(s *session, reasoned bool) (url.Values, error) {
	switch {
	case reasoned && strings.TrimSpace(d.why) == "":
		return nil, usagef("set --why to the reason")
	case len(s.clusters) != 1:
		return nil, usagef("choose one cluster: each holds different objects")
	case !d.yes && !d.dry && !s.std.InTerminal:
		return nil, usagef("stdin is not a terminal: use --yes")
	}
	if s.program.Remote && d.by != "" {
		writeLines(s.std.Err, []string{"--by has no effect here: the API server says who you are"})
	}
	return url.Values{"namespace": d.namespaces, "object": d.objects, "by": {d.by}, "why": {d.why}}, nil
}

// confirmed asks on the terminal, unless --yes is set.
func (d *decision) confirmed(s *session, what string) bool {
	if d.yes {
		return true
	}
	fmt.Fprintf(s.std.Err, "%s? Type yes: ", what)
	line, _ := bufio.NewReader(s.std.In).ReadString('\n')
	if strings.TrimSpace(line) == "yes" {
		return true
	}
	fmt.Fprintln(s.std.Err, "nothing was changed")
	return false
}

// post sends a command to a replica.
func post[T any](ctx context.Context, r Replica, path string, form url.Values) (*answer[T], error) {
	if r.Post == nil {
		return nil, errors.New("commands are taken in the pod only: kubectl routesrv COMMAND, or kubectl exec POD -- routesrv COMMAND")
	}
	body, err := r.Post(ctx, path, form)
	if err != nil {
		return nil, err
	}
	p := &answer[T]{raw: body}
	if err := json.Unmarshal(body, &p.said); err != nil {
		return nil, fmt.Errorf("the answer is not what a route server says: %w", err)
	}
	return p, nil
}

// done prints the result of a command for every replica, and the exit status: trouble unless all that matter have it.
func done[T any](s *session, command string, r query.Reply[*answer[T]], status int, about func(said *T) string, trouble string) (int, error) {
	return tabulate(s, command, nil, []query.Reply[*answer[T]]{r}, func(_ int, r query.Reply[*answer[T]], one *reported) int {
		for _, a := range r.Answered() {
			if a.Value != nil {
				one.note(a.Replica, about(&a.Value.said))
			}
		}
		if trouble != "" {
			writeLines(s.std.Err, []string{trouble})
			return Trouble
		}
		return status
	})
}

// acceptJob publishes held content: all of it, or only kept objects selected by namespace or name.
type acceptJob struct{ decision }

// digestForm matches a digest.
var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (j *acceptJob) run(ctx context.Context, s *session) (int, error) {
	digest := strings.ToLower(s.args[0])
	if !digestForm.MatchString(digest) {
		return Trouble, usagef("%q is not a digest: must be the 64 hexadecimal digits that %s held shows", s.args[0], s.program.Name)
	}
	form, err := j.form(s, true)
	if err != nil {
		return Trouble, err
	}
	form.Set("digest", digest)
	status, chosen := j.choose(s, ask(ctx, s, s.clusters, askHeld)[0], digest)
	if len(chosen) == 0 {
		writeLines(s.std.Err, []string{"nothing is held with this digest"})
		return max(status, Unhealthy), nil
	}
	if !j.confirmed(s, "Publish this on "+shadowdiff.Plural(len(chosen), "replica")) {
		return max(status, Unhealthy), nil
	}
	r := ask(ctx, s, s.clusters, func(ctx context.Context, replica Replica) (*answer[api.Accepted], error) {
		if !slices.Contains(chosen, replica.Name) {
			return nil, nil // it holds nothing
		}
		return post[api.Accepted](ctx, replica, api.PathAccept, form)
	})[0]
	left := len(chosen)
	for _, a := range r.Answered() {
		if slices.Contains(chosen, a.Replica) {
			left--
		}
	}
	trouble := ""
	if left > 0 {
		trouble = shadowdiff.Plural(left, "replica") + " that held it did not publish it"
	}
	return done(s, "accept", r, status, func(said *api.Accepted) string {
		return "serves " + shortDigest(said.Digest.String()) + ", " + shadowdiff.Plural(said.Routes, "route")
	}, trouble)
}

// choose shows what the replicas hold, and returns the ones that hold the digest.
func (j *acceptJob) choose(s *session, r query.Reply[*spoken], digest string) (status int, chosen []string) {
	status = silent(r)
	writeLines(s.std.Err, r.Missing())
	for _, g := range agreeing(r, func(a *spoken) string { return a.key }) {
		switch where := query.Label(r.Cluster, strings.Join(g.replicas, ", ")); {
		case g.value.key == digest:
			if chosen = g.replicas; s.output != "json" {
				_ = writeText(s.std.Out, g.value.text)
				writeLines(s.std.Out, []string{"", "Held by " + strings.TrimSuffix(where, ": ")})
			}
		case g.value.key != "":
			writeLines(s.std.Err, []string{where + "holds something else, " + g.value.key + ": look at it with the command held"})
			status = max(status, Unhealthy)
		}
	}
	return status, chosen
}

// pinsPerCommand is how many pins one command to a replica has: the argument of a process is limited.
const pinsPerCommand = 500

// steerJob freezes objects, rolls them back, or releases them, on all replicas of a cluster.
type steerJob struct {
	decision
	order         string
	duration      time.Duration
	untilReleased bool
	all           bool
	to            string // of a rollback
	deleted       bool
}

func (j *steerJob) define(flags *options.Flags) {
	j.decision.define(flags)
	flags.Add("--all", options.Bool(&j.all, false), "All objects.")
	flags.Add("--dry-run", options.Bool(&j.dry, false), "Show what would change, and change nothing.")
	if j.lasts() {
		flags.Add("--for", options.Duration(&j.duration, api.DefaultSteering, time.Second, api.MaxSteering), "How long it lasts.")
		flags.Add("--until-released", options.Bool(&j.untilReleased, false), "It lasts until unfreeze ends it, instead of --for.")
	}
	if j.order == api.SteerRollback {
		flags.Add("--to", options.Text("TIME", &j.to, ""),
			"Roll back to what was served at this time, instead of to an entry; in the forms of --since of log.")
		flags.Add("--deleted", options.Bool(&j.deleted, false), "Only objects that no longer exist. Nothing is frozen.")
	}
}

// lasts reports whether the order has an end.
func (j *steerJob) lasts() bool { return j.order == api.SteerFreeze || j.order == api.SteerRollback }

// parameters returns the parameters of /steering.
func (j *steerJob) parameters(s *session) (url.Values, error) {
	chosen := len(j.namespaces) + len(j.objects)
	if j.all {
		chosen++
	}
	switch {
	case chosen != 1:
		return nil, usagef("choose one of -n, --object and --all")
	case j.order == api.SteerRollback && (len(s.args) == 0) == (j.to == ""):
		return nil, usagef("choose an entry of the history or --to TIME")
	}
	form, err := j.form(s, j.order != api.SteerRelease && j.order != api.SteerPromote)
	if err != nil {
		return nil, err
	}
	form.Set("order", j.order)
	if j.untilReleased {
		form.Set("until", api.SteerRelease)
	} else if j.lasts() { // the same on all replicas
		form.Set("until", s.now().Add(j.duration).UTC().Format(time.RFC3339))
	}
	if j.order == api.SteerRollback {
		form.Set("at", j.to)
		form.Set("deleted", strconv.FormatBool(j.deleted))
		form.Set("entry", strings.Join(s.args, ""))
	}
	return form, nil
}

func (j *steerJob) run(ctx context.Context, s *session) (int, error) {
	form, err := j.parameters(s)
	if err != nil {
		return Trouble, err
	}
	c := s.clusters[0]
	if j.order == api.SteerRollback {
		if c, err = s.storyteller(ctx); err != nil {
			return Trouble, err
		}
	}
	dry := maps.Clone(form)
	dry.Set("dry", "true")
	preview := ask(ctx, s, []Cluster{c}, func(ctx context.Context, r Replica) (*answer[api.Steered], error) {
		return post[api.Steered](ctx, r, api.PathSteering, dry)
	})[0]
	if len(preview.Answered()) == 0 {
		return Trouble, errors.New(strings.Join(preview.Missing(), "; "))
	}
	first, planned := preview.Answered()[0].Replica, &preview.Answered()[0].Value.said
	if j.dry && s.output == "json" {
		return Healthy, writeDocument(s.std.Out, document{
			Command: j.order, Clusters: []documentCluster{{Name: c.Name, Replicas: []documentReplica{}, Answer: planned}},
		})
	}
	j.show(s, first, planned)
	if j.dry {
		return Healthy, nil
	}
	if !j.confirmed(s, "Do this on every replica") {
		return Unhealthy, nil
	}
	s.timeout *= time.Duration(1 + len(planned.Pins)/pinsPerCommand)
	r := ask(ctx, s, s.clusters, func(ctx context.Context, r Replica) (*answer[api.Steered], error) {
		return j.carryOut(ctx, r, form, planned)
	})[0]
	trouble := ""
	if len(r.Answered()) < len(r.Answers) || len(r.Answers) == 0 {
		trouble = "not every replica has it: run the command again, which repeats nothing that is done; a replica that starts takes the list of the others"
	}
	return done(s, j.order, r, Healthy, func(said *api.Steered) string { return "done, serves " + shortDigest(said.Digest.String()) }, trouble)
}

// carryOut sends the command to one replica. A rollback names the versions, because replicas number their entries differently.
func (j *steerJob) carryOut(ctx context.Context, r Replica, form url.Values, planned *api.Steered) (last *answer[api.Steered], err error) {
	if j.order != api.SteerRollback || len(planned.Pins) == 0 {
		return post[api.Steered](ctx, r, api.PathSteering, form)
	}
	form = maps.Clone(form)
	form.Del("entry")
	form.Del("at")
	_, of, _ := strings.Cut(planned.What, " to ")
	form.Set("of", of)
	done := 0
	for pins := range slices.Chunk(planned.Pins, pinsPerCommand) {
		form["pin"] = pins
		if last, err = post[api.Steered](ctx, r, api.PathSteering, form); err != nil {
			return nil, fmt.Errorf("%d of %s pinned, then: %w", done, shadowdiff.Plural(len(planned.Pins), "object"), cmp.Or(context.Cause(ctx), err))
		}
		done += len(pins)
	}
	return last, nil
}

// show prints what a command would change.
func (j *steerJob) show(s *session, replica string, a *api.Steered) {
	lines := []string{a.What}
	if !a.Until.IsZero() {
		lines = append(lines, "until "+a.Until.Format(time.RFC3339)+", then the newest versions are served")
	} else if j.lasts() {
		lines = append(lines, "until it is released")
	}
	if len(a.Pins) > 0 {
		lines = append(lines, shadowdiff.Plural(len(a.Pins), "object")+" pinned")
	}
	for _, w := range a.Warnings {
		lines = append(lines, "WARNING "+w)
	}
	lines = append(lines, "", "What changes, according to "+replica)
	writeLines(s.std.Err, lines)
	_ = writeText(s.std.Err, []byte(cmp.Or(a.Changes, "nothing")))
	fmt.Fprintln(s.std.Err)
}
