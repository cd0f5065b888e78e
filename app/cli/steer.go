package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/query"
)

// pinsPerCommand is how many pins one command to a replica has: the argument of a process is limited.
const pinsPerCommand = 500

// steerJob freezes objects, rolls them back, or releases them, on all replicas of a cluster.
type steerJob struct {
	order             string
	namespace, object string
	duration          time.Duration
	untilReleased     bool
	by, why           string
	dry, yes, all     bool
	to                string // of a rollback
	deleted           bool
	progress          sync.Mutex // of lines about it
}

func (j *steerJob) define(flags *options.Flags) {
	flags.Add("-n,--namespace", options.Text("NAME", &j.namespace, ""), "Only objects of this namespace.")
	flags.Add("--object", options.Text("NAME", &j.object, ""),
		"Only this object, as KIND/NAMESPACE/NAME.")
	flags.Add("--all", options.Bool(&j.all, false), "All objects.")
	if j.order != api.SteerRelease {
		flags.Add("--for", options.Duration(&j.duration, api.DefaultSteering, time.Second, api.MaxSteering),
			"How long it lasts.")
		flags.Add("--until-released", options.Bool(&j.untilReleased, false),
			"It lasts until unfreeze ends it, instead of --for.")
	}
	if j.order == api.SteerRollback {
		flags.Add("--to", options.Text("TIME", &j.to, ""),
			"Roll back to what was served at this time, instead of to an entry; in the forms of --since of log.")
		flags.Add("--deleted", options.Bool(&j.deleted, false), "Only objects that do not exist any more. Nothing is frozen.")
	}
	flags.Add("--by", options.Text("NAME", &j.by, ""),
		"Who decides this, in a pod; empty means the id of the user. kubectl routesrv asks the API server instead.")
	flags.Add("--why", options.Text("REASON", &j.why, ""), "The reason; required, except by unfreeze.")
	flags.Add("--dry-run", options.Bool(&j.dry, false), "Show what would change, and change nothing.")
	flags.Add("--yes", options.Bool(&j.yes, false), "Do not ask.")
}

// form returns the parameters of /steering.
func (j *steerJob) form(s *session) (url.Values, error) {
	chosen := 0
	for _, one := range []bool{j.namespace != "", j.object != "", j.all} {
		if one {
			chosen++
		}
	}
	switch {
	case chosen != 1:
		return nil, usagef("choose one of -n, --object and --all")
	case j.order == api.SteerRollback && (len(s.args) == 0) == (j.to == ""):
		return nil, usagef("choose an entry of the history or --to TIME")
	case strings.TrimSpace(j.why) == "" && j.order != api.SteerRelease:
		return nil, usagef("set --why to the reason")
	case !j.yes && !j.dry && !s.std.InTerminal:
		return nil, usagef("stdin is not a terminal: use --yes or --dry-run")
	}
	form := url.Values{"order": {j.order}, "by": {j.by}, "why": {j.why}}
	if j.namespace != "" {
		form.Set("namespace", j.namespace)
	}
	if j.object != "" {
		form.Set("object", j.object)
	}
	if j.untilReleased {
		form.Set("until", api.SteerRelease)
	} else if j.order != api.SteerRelease { // the same on all replicas
		form.Set("until", s.now().Add(j.duration).UTC().Format(time.RFC3339))
	}
	return form, nil
}

func (j *steerJob) run(ctx context.Context, s *session) (int, error) {
	form, err := j.form(s)
	if err != nil {
		return Trouble, err
	}
	c, err := s.oneCluster()
	if err != nil {
		return Trouble, err
	}
	if s.program.Remote && j.by != "" {
		writeLines(s.std.Err, []string{"--by has no effect here: the API server says who you are"})
	}
	first, err := j.first(ctx, s, c)
	if err != nil {
		return Trouble, err
	}
	if j.order == api.SteerRollback {
		form.Set("at", j.to)
		form.Set("deleted", strconv.FormatBool(j.deleted))
		form.Set("entry", strings.Join(s.args, ""))
	}
	planned, err := j.preview(ctx, s, first, form)
	if err != nil {
		return Trouble, fmt.Errorf("%s%w", query.Label(c.Name, first.Name), err)
	}
	if s.output != "json" || !j.dry {
		j.show(s, first.Name, planned)
	}
	if j.dry {
		if s.output == "json" {
			return Healthy, writeDocument(s.std.Out, document{Command: j.order, Clusters: []documentCluster{{Name: c.Name, Replicas: []documentReplica{}, Answer: planned}}})
		}
		return Healthy, nil
	}
	if !j.yes {
		if sure, err := confirm(s, "every replica", "Do this on"); err != nil || !sure {
			fmt.Fprintln(s.std.Err, "nothing was changed")
			return Unhealthy, err
		}
	}
	parts := *s // each has the time limit of a command
	parts.timeout *= time.Duration(1 + len(planned.Pins)/pinsPerCommand)
	replies := ask(ctx, &parts, []Cluster{c}, func(ctx context.Context, r Replica) (*posted[api.Steered], error) {
		return j.carryOut(ctx, s, r, form, planned)
	})
	return j.report(s, replies[0])
}

// first returns the replica that says what would change.
func (j *steerJob) first(ctx context.Context, s *session, c Cluster) (Replica, error) {
	if j.order == api.SteerRollback {
		return storyteller(ctx, s, c)
	}
	replicas, err := c.Find(ctx)
	if err != nil {
		return Replica{}, err
	}
	i := slices.IndexFunc(replicas, func(r Replica) bool { return r.Fault == "" })
	if i < 0 {
		return Replica{}, errors.New("no replica can be asked")
	}
	return replicas[i], nil
}

// preview asks what would change.
func (j *steerJob) preview(ctx context.Context, s *session, r Replica, form url.Values) (*api.Steered, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	dry := maps.Clone(form)
	dry.Set("dry", "true")
	answer, err := post[api.Steered](ctx, r, api.PathSteering, dry)
	if err != nil {
		return nil, err
	}
	return &answer.said, nil
}

// carryOut gives one replica the command. Of a roll back it names the versions, because replicas number their entries differently.
func (j *steerJob) carryOut(ctx context.Context, s *session, r Replica, form url.Values, planned *api.Steered) (answer *posted[api.Steered], err error) {
	if j.order != api.SteerRollback || len(planned.Pins) == 0 {
		return post[api.Steered](ctx, r, api.PathSteering, form)
	}
	done := 0
	for pins := range slices.Chunk(planned.Pins, pinsPerCommand) {
		one := maps.Clone(form)
		one.Del("entry")
		one.Del("at")
		_, of, _ := strings.Cut(planned.What, " to ")
		one.Set("of", of)
		one["pin"] = pins
		part, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("no answer within %v", s.timeout))
		answer, err = query.Bounded(part, func(ctx context.Context) (*posted[api.Steered], error) {
			return post[api.Steered](ctx, r, api.PathSteering, one)
		})
		if cancel(); err != nil {
			return nil, fmt.Errorf("%d of %s pinned, then: %w", done, number(len(planned.Pins), "object"), err)
		}
		if done += len(pins); len(planned.Pins) > pinsPerCommand {
			j.progress.Lock()
			writeLines(s.std.Err, []string{fmt.Sprintf("%s: %d of %s pinned", r.Name, done, number(len(planned.Pins), "object"))})
			j.progress.Unlock()
		}
	}
	return answer, nil
}

// posted is the answer to a command.
type posted[T any] struct {
	said T
	raw  json.RawMessage
}

func (p *posted[T]) json() json.RawMessage {
	if p == nil {
		return nil // the replica was not asked
	}
	return p.raw
}

// post sends a command to a replica.
func post[T any](ctx context.Context, r Replica, path string, form url.Values) (*posted[T], error) {
	if r.Post == nil {
		return nil, errors.New("commands are taken in the pod only: kubectl routesrv COMMAND, or kubectl exec POD -- routesrv COMMAND")
	}
	body, err := r.Post(ctx, path, form)
	if err != nil {
		return nil, err
	}
	p := &posted[T]{raw: body}
	if err := json.Unmarshal(body, &p.said); err != nil {
		return nil, fmt.Errorf("the answer is not what a route server says: %w", err)
	}
	return p, nil
}

// show prints what a command would change.
func (j *steerJob) show(s *session, replica string, a *api.Steered) {
	lines := []string{a.What}
	if !a.Until.IsZero() {
		lines = append(lines, "until "+a.Until.Format(time.RFC3339)+", then the newest versions are served")
	} else if j.order != api.SteerRelease {
		lines = append(lines, "until it is released")
	}
	if len(a.Pins) > 0 {
		lines = append(lines, number(len(a.Pins), "object")+" pinned")
	}
	for _, w := range a.Warnings {
		lines = append(lines, "WARNING "+w)
	}
	lines = append(lines, "", "What changes, according to "+replica)
	writeLines(s.std.Err, lines)
	_ = writeText(s.std.Err, []byte(cmp.Or(a.Changes, "nothing")))
	fmt.Fprintln(s.std.Err)
}

// report prints the result for every replica.
func (j *steerJob) report(s *session, r query.Reply[*posted[api.Steered]]) (int, error) {
	status := Healthy
	if len(r.Answered()) < len(r.Answers) || r.Err != nil || len(r.Answers) == 0 {
		status = Trouble
	}
	if s.output == "json" {
		d := outline(r, status)
		d.Result = result(status)
		return status, writeDocument(s.std.Out, document{Command: j.order, Result: d.Result, Clusters: []documentCluster{d}})
	}
	for _, a := range r.Answered() {
		writeLines(s.std.Out, []string{query.Label(r.Cluster, a.Replica) + "done, serves " + shortDigest(a.Value.said.Digest.String())})
	}
	writeLines(s.std.Err, r.Missing())
	if status == Trouble {
		writeLines(s.std.Err, []string{"not every replica has it: run the command again, which repeats nothing that is done; a replica that starts takes the list of the others"})
	}
	return status, nil
}
