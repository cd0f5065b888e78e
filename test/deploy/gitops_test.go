package deploy

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// The kinds of Flux and Argo CD, with only the fields that the examples use, as in their public API references. Decoding is
// strict, so a misspelled field fails.

type meta struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type fluxReference struct {
	Kind string `json:"kind,omitempty"`
	Name string `json:"name"`
}

// gitRepository is the kind of source.toolkit.fluxcd.io/v1.
type gitRepository struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   meta   `json:"metadata"`
	Spec       struct {
		Interval string `json:"interval"`
		URL      string `json:"url"`
		Ref      struct {
			Branch string `json:"branch,omitempty"`
			Tag    string `json:"tag,omitempty"`
		} `json:"ref"`
		Ignore    string         `json:"ignore,omitempty"`
		SecretRef *fluxReference `json:"secretRef,omitempty"`
		Include   []struct {
			Repository fluxReference `json:"repository"`
			FromPath   string        `json:"fromPath"`
			ToPath     string        `json:"toPath"`
		} `json:"include,omitempty"`
	} `json:"spec"`
}

// ociRepository is the kind of source.toolkit.fluxcd.io/v1.
type ociRepository struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   meta   `json:"metadata"`
	Spec       struct {
		Interval string `json:"interval"`
		URL      string `json:"url"`
		Ref      struct {
			Tag string `json:"tag"`
		} `json:"ref"`
	} `json:"spec"`
}

// fluxKustomization is the kind of kustomize.toolkit.fluxcd.io/v1.
type fluxKustomization struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   meta   `json:"metadata"`
	Spec       struct {
		DependsOn     []fluxReference `json:"dependsOn,omitempty"`
		Interval      string          `json:"interval"`
		RetryInterval string          `json:"retryInterval,omitempty"`
		Timeout       string          `json:"timeout"`
		SourceRef     fluxReference   `json:"sourceRef"`
		Path          string          `json:"path"`
		Prune         bool            `json:"prune"`
		Wait          bool            `json:"wait"`
	} `json:"spec"`
}

// argoApplication is the kind of argoproj.io/v1alpha1.
type argoApplication struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   meta   `json:"metadata"`
	Spec       struct {
		Project string `json:"project"`
		Source  struct {
			RepoURL        string `json:"repoURL"`
			TargetRevision string `json:"targetRevision"`
			Path           string `json:"path"`
		} `json:"source"`
		Destination struct {
			Server    string `json:"server"`
			Namespace string `json:"namespace,omitempty"`
		} `json:"destination"`
		SyncPolicy struct {
			Automated struct {
				Prune    bool `json:"prune"`
				SelfHeal bool `json:"selfHeal"`
			} `json:"automated"`
			SyncOptions []string `json:"syncOptions"`
			Retry       struct {
				Limit   int `json:"limit"`
				Backoff struct {
					Duration    string `json:"duration"`
					Factor      int    `json:"factor"`
					MaxDuration string `json:"maxDuration"`
				} `json:"backoff"`
			} `json:"retry,omitzero"`
		} `json:"syncPolicy"`
	} `json:"spec"`
}

const (
	fleetDir  = "../examples/gitops" // stands for the root of a user's repository
	clusterOf = "clusters/example"
	vendored  = "vendor/routesrv"
)

// fluxDuration is the pattern that Flux uses for durations.
var fluxDuration = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`)

// gitOps reads the manifests of a controller.
func gitOps(t *testing.T, files ...string) []*object {
	t.Helper()
	var all []*object
	for _, f := range files {
		objects, err := readObjects(filepath.Join(fleetDir, f))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, objects...)
	}
	return all
}

// TestVendoredManifestsAreThoseOfTheProject: in the example they are a link, so they cannot be edited there.
func TestVendoredManifestsAreThoseOfTheProject(t *testing.T) {
	linked, err := filepath.EvalSymlinks(filepath.Join(fleetDir, vendored))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := filepath.Abs(linked); err != nil || got != abs(t, "kustomize") {
		t.Errorf("%s is %s (%v), want %s", vendored, got, err, abs(t, "kustomize"))
	}
}

func abs(t *testing.T, path string) string {
	t.Helper()
	full, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if full, err = filepath.EvalSymlinks(full); err != nil {
		t.Fatal(err)
	}
	return full
}

// TestFluxFindsWhatItApplies: every source, path and dependency of the example exists, the CRD is never deleted, and the tests
// render the same repository that Flux puts together.
func TestFluxFindsWhatItApplies(t *testing.T) {
	sources := make(map[fluxReference]bool)
	var fleet *gitRepository
	applied := make(map[string]*fluxKustomization)
	var durations []string
	for _, o := range gitOps(t, "flux/sources.yaml", "flux/routesrv.yaml") {
		if o.namespace != "flux-system" {
			t.Errorf("%s is in another namespace than what refers to it", o)
		}
		sources[fluxReference{o.kind, o.name}] = true
		switch version := o.fields["apiVersion"]; o.kind + " " + version.(string) {
		case "GitRepository source.toolkit.fluxcd.io/v1":
			r := as[gitRepository](t, o)
			durations = append(durations, r.Spec.Interval)
			if (r.Spec.Ref.Branch == "") == (r.Spec.Ref.Tag == "") || !strings.HasPrefix(r.Spec.URL, "https://") {
				t.Errorf("%s: %+v", o, r.Spec)
			}
			if len(r.Spec.Include) > 0 {
				fleet = r
			}
		case "OCIRepository source.toolkit.fluxcd.io/v1":
			r := as[ociRepository](t, o)
			durations = append(durations, r.Spec.Interval)
			if !strings.HasPrefix(r.Spec.URL, "oci://") || strings.Contains(path.Base(r.Spec.URL), ":") {
				t.Errorf("%s: the URL %q does not name an artifact without a tag", o, r.Spec.URL)
			}
		case "Kustomization kustomize.toolkit.fluxcd.io/v1":
			k := as[fluxKustomization](t, o)
			applied[o.name] = k
			durations = append(durations, k.Spec.Interval, k.Spec.Timeout)
			if k.Spec.RetryInterval != "" {
				durations = append(durations, k.Spec.RetryInterval)
			}
		default:
			t.Errorf("%s of %s is not known to this test", o, version)
		}
	}
	for _, d := range durations {
		if !fluxDuration.MatchString(d) {
			t.Errorf("%q is no time", d)
		}
	}
	if fleet == nil {
		t.Fatal("no repository includes the manifests")
	}
	include := fleet.Spec.Include[0]
	if !sources[fluxReference{"GitRepository", include.Repository.Name}] {
		t.Errorf("the repository %q is not there", include.Repository.Name)
	}
	if got := abs(t, filepath.Join(fleetDir, include.ToPath)); got != abs(t, filepath.Join("..", include.FromPath)) {
		t.Errorf("%s is put at %s, where the example has %s", include.FromPath, include.ToPath, got)
	}
	for name, k := range applied {
		if !sources[k.Spec.SourceRef] {
			t.Errorf("%s: the source %v is not there", name, k.Spec.SourceRef)
		}
		for _, other := range k.Spec.DependsOn {
			if applied[other.Name] == nil {
				t.Errorf("%s waits for %s, which is not there", name, other.Name)
			}
		}
		root := "kustomize" // of the artifact
		if k.Spec.SourceRef.Kind == "GitRepository" {
			root = fleetDir
		}
		checkApplied(t, name, filepath.Join(root, k.Spec.Path), k.Spec.Prune)
	}
}

// checkApplied checks that the tests render the folder, and that no prune deletes a CRD.
func checkApplied(t *testing.T, name, dir string, prune bool) {
	t.Helper()
	for render, of := range renders {
		if filepath.Clean(of) != dir {
			continue
		}
		for _, o := range rendered[render] {
			if o.kind == "CustomResourceDefinition" && prune {
				t.Errorf("%s may delete %s, and with it every object of the kind", name, o)
			}
		}
		return
	}
	t.Errorf("%s applies %s, which nothing renders", name, dir)
}

// TestArgoFindsWhatItApplies: every path exists, the CRD is never deleted, and the namespace is the one in the values.
func TestArgoFindsWhatItApplies(t *testing.T) {
	applications := gitOps(t, "argo/applications.yaml")
	if len(applications) != 2 {
		t.Fatalf("%d applications", len(applications))
	}
	for _, o := range applications {
		a := as[argoApplication](t, o)
		if a.APIVersion != "argoproj.io/v1alpha1" || a.Kind != "Application" || a.Metadata.Namespace != "argocd" || a.Spec.Project == "" {
			t.Errorf("%s: %+v", o, a)
		}
		dir := filepath.Join(fleetDir, a.Spec.Source.Path)
		if a.Spec.Source.RepoURL == "https://git.example.org/edge/routesrv" {
			dir = strings.TrimPrefix(a.Spec.Source.Path, "deploy/")
		}
		checkApplied(t, o.name, dir, a.Spec.SyncPolicy.Automated.Prune)
		for _, option := range a.Spec.SyncPolicy.SyncOptions {
			if !slices.Contains([]string{"ServerSideApply=true", "PruneLast=true"}, option) {
				t.Errorf("%s: the option %q is not known to this test", o, option)
			}
		}
		for _, d := range []string{a.Spec.SyncPolicy.Retry.Backoff.Duration, a.Spec.SyncPolicy.Retry.Backoff.MaxDuration} {
			if _, err := time.ParseDuration(d); d != "" && err != nil {
				t.Errorf("%s: %v", o, err)
			}
		}
		if namespace := a.Spec.Destination.Namespace; namespace != "" {
			find(t, "gitops", "Namespace", namespace)
		}
	}
}

// TestProxiesOfTheExampleAreSomebodysOwn: with the label and the sidecar they keep everything they had, and neither controller
// deletes them.
func TestProxiesOfTheExampleAreSomebodysOwn(t *testing.T) {
	before, err := readObjects(filepath.Join(fleetDir, clusterOf, "proxies/daemonset.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	after := find(t, "gitops", "DaemonSet", "edge-proxy")
	for _, loss := range losses("", before[0].fields, after.fields) {
		t.Error(loss)
	}
	d := dataPlane(t, "gitops")
	for annotation, want := range map[string]string{
		"kustomize.toolkit.fluxcd.io/prune": "disabled", "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
	} {
		if got := d.Annotations[annotation]; got != want {
			t.Errorf("%s is %q", annotation, got)
		}
	}
}

// TestValuesNeverReachTheCluster: only kustomize reads them.
func TestValuesNeverReachTheCluster(t *testing.T) {
	for render, objects := range rendered {
		for _, o := range objects {
			if o.kind == "SiteValues" {
				t.Errorf("%s has %s", render, o)
			}
		}
	}
}

// TestEveryValueIsExplained: in the guide, and the example sets each value.
func TestEveryValueIsExplained(t *testing.T) {
	guide, err := os.ReadFile("../docs/start/gitops.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := readObjects(filepath.Join(fleetDir, clusterOf, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for value := range defaultValues(t) {
		if !strings.Contains(string(guide), "`"+value+"`") {
			t.Errorf("the guide does not have %s", value)
		}
		fields := example[0].fields
		group, name, isGroup := strings.Cut(value, ".")
		if isGroup {
			fields, _ = fields[group].(map[string]any)
			group = name
		}
		if fields[group] == nil {
			t.Errorf("the example does not have %s", value)
		}
	}
}
