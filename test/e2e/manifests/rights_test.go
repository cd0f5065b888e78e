package manifests

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/routesrv/routesrv/test/programs"
)

// The verbs of the API. A role may name others, which only few resources support; those that would extend an account's
// permissions are checked as well.
var verbs = []string{
	"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "bind", "escalate",
}

// mayList is everything that a route server, and a data plane that computes its table, may do.
var mayList = []string{
	"list endpointslices.discovery.k8s.io",
	"list ingresses.networking.k8s.io",
	"list routegroups.zalando.org",
	"list services",
}

// accounts are the accounts of the overlays.
var accounts = []string{"routesrv", "skipper-ingress"}

// TestRights asks a real API server what the accounts of the manifests may do.
func TestRights(t *testing.T) {
	t.Parallel() // it has its own API server
	r := rights{manifests: newManifests(t)}
	r.resources = r.list(t)
	r.everybody = r.allowed(t, "account-without-any-role", metav1.NamespaceAll)
	for right := range r.everybody {
		if !strings.HasPrefix(right, "create selfsubject") { // questions about one's own permissions
			t.Errorf("every account may %s: this cluster tells nothing", right)
		}
	}
	t.Run("ClusterWide", r.testCluster)
	t.Run("OfOneNamespace", r.testNamespace)
}

// rights asks an API server for permissions.
type rights struct {
	*manifests
	resources []authorizationv1.ResourceAttributes // all existing ones
	everybody map[string]bool                      // permissions of every account, as "verb resource"
}

// testCluster checks the unchanged overlays.
func (r *rights) testCluster(t *testing.T) {
	r.kubectl(t, "apply", "-k", "deploy/kustomize/overlays/pre")
	for _, account := range accounts {
		for _, namespace := range []string{metav1.NamespaceAll, systemNamespace} {
			if diff := cmp.Diff(mayList, r.of(t, account, namespace)); diff != "" {
				t.Errorf("%s in namespace %q (-want +got):\n%s", account, namespace, diff)
			}
		}
		user := "--as=system:serviceaccount:" + systemNamespace + ":" + account
		for right, want := range map[string]string{"list ingresses": "yes", "list secrets": "no"} { // an operator would ask this way
			out, _ := r.try(t, "", append([]string{"auth", "can-i", "-A", user}, strings.Fields(right)...)...)
			if !slices.Contains(strings.Fields(out), want) {
				t.Errorf("%s: kubectl auth can-i %s: %s, want %s", account, right, out, want)
			}
		}
		r.reads(t, account, "", "")
	}
	r.kubectl(t, "delete", "-k", "deploy/kustomize/overlays/pre")
}

// testNamespace checks components/namespaced for the namespace shop.
func (r *rights) testNamespace(t *testing.T) {
	r.kubectl(t, "apply", "-k", "deploy/testdata/namespaced")
	for _, account := range accounts {
		for namespace, want := range map[string][]string{metav1.NamespaceAll: nil, "shop": mayList, systemNamespace: nil} {
			if diff := cmp.Diff(want, r.of(t, account, namespace)); diff != "" {
				t.Errorf("%s in namespace %q (-want +got):\n%s", account, namespace, diff)
			}
		}
		r.reads(t, account, "shop", "")
		r.reads(t, account, "", "forbidden")
	}
	r.kubectl(t, "delete", "-k", "deploy/testdata/namespaced")
}

// of lists the permissions of one of our accounts that not every account has.
func (r *rights) of(t *testing.T, account, namespace string) []string {
	t.Helper()
	own := r.allowed(t, account, namespace)
	maps.DeleteFunc(own, func(right string, _ bool) bool { return r.everybody[right] })
	return slices.Sorted(maps.Keys(own))
}

// allowed asks for every verb on every resource of the API server, for an account, like kubectl auth can-i --as.
func (r *rights) allowed(t *testing.T, account, namespace string) map[string]bool {
	t.Helper()
	config := rest.CopyConfig(r.env.Config)
	config.QPS = -1
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + systemNamespace + ":" + account}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	var (
		mu   sync.Mutex
		all  = make(map[string]bool)
		wg   sync.WaitGroup
		work = make(chan authorizationv1.ResourceAttributes)
	)
	for range 8 {
		wg.Go(func() {
			for a := range work {
				review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a}}
				answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
				mu.Lock()
				if err != nil {
					t.Errorf("%s %s: %v", a.Verb, a.Resource, err)
				} else if answer.Status.Allowed {
					all[a.Verb+" "+resourceName(a)] = true
				}
				mu.Unlock()
			}
		})
	}
	for _, a := range r.resources {
		for _, verb := range verbs {
			a.Namespace, a.Verb = namespace, verb
			work <- a
		}
	}
	close(work)
	wg.Wait()
	return all
}

func resourceName(a authorizationv1.ResourceAttributes) string {
	name := schema.GroupResource{Group: a.Group, Resource: a.Resource}.String()
	if a.Subresource != "" {
		name += "/" + a.Subresource
	}
	return name
}

// list returns all resources, including subresources, and one that does not exist: a wildcard in a role would allow it.
func (r *rights) list(t *testing.T) []authorizationv1.ResourceAttributes {
	t.Helper()
	_, lists, err := r.client.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	found := map[authorizationv1.ResourceAttributes]bool{{Group: "nobody.example.org", Resource: "things"}: true}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			resource, sub, _ := strings.Cut(r.Name, "/")
			found[authorizationv1.ResourceAttributes{Group: gv.Group, Resource: resource, Subresource: sub}] = true
		}
	}
	all := slices.Collect(maps.Keys(found))
	for _, want := range []string{"secrets", "pods/exec", "nodes/proxy", "routegroups.zalando.org/status", "ingresses.networking.k8s.io/status"} {
		if !slices.ContainsFunc(all, func(a authorizationv1.ResourceAttributes) bool { return resourceName(a) == want }) {
			t.Fatalf("the API server does not have %s; are these all? %d resources", want, len(all))
		}
	}
	return all
}

// reads runs the program of an account with its token and the flags of the manifests: its permissions must suffice for a first
// table, or the program must name what is missing.
func (r *rights) reads(t *testing.T, account, namespace, wantError string) {
	t.Helper()
	seconds := int64(3600)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := r.client.CoreV1().ServiceAccounts(systemNamespace).CreateToken(t.Context(), account, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := programs.Kubeconfig(t, r.env.Config.Host, r.env.Config.CAData, answer.Status.Token)
	main, support := programs.FreeAddress(t), programs.FreeAddress(t)
	args := []string{
		"-address=" + main, "-support-listener=" + support, "-kubernetes", "--kubeconfig=" + config, "-kubernetes-namespace=" + namespace,
		"-config-file=" + r.flags(t), "-source-poll-timeout=300",
	}
	program, source := routesrv, "source"
	if account == "skipper-ingress" {
		program, source = dataplane, "self"
		args = append(args, "--mode=False", "--state-dir="+t.TempDir())
	} else {
		args = append(args, "-wait-for-healthcheck-interval=0s")
	}
	p := programs.Start(t, program, main, support, args)
	defer p.Stop(t)
	if wantError == "" {
		p.Ready(t)
		if log := p.Log(); strings.Contains(log, "forbidden") {
			t.Errorf("%s, namespace %q:\n%s", account, namespace, log)
		}
		return
	}
	var body string
	programs.Eventually(t, fmt.Sprintf("%q in /status of %s", wantError, account), func() bool {
		var a programs.Answer
		if program == dataplane { // it answers this machine only over its socket
			a, err = programs.Control(t.Context(), http.MethodGet, p.State, "/status")
		} else {
			a, err = programs.Fetch(t.Context(), p.Support+"/status", "")
		}
		body = a.Body
		return err == nil && a.Status == http.StatusOK && strings.Contains(body, `"`+source+`"`) && strings.Contains(body, wantError)
	})
	if a, err := programs.Fetch(t.Context(), p.Support+"/health", ""); err != nil || a.Status != http.StatusServiceUnavailable {
		t.Errorf("%s has a table of what it may not read: %v %d", account, err, a.Status)
	}
}

// flags writes the configuration file that both programs have in the cluster.
func (r *rights) flags(t *testing.T) string {
	t.Helper()
	list, err := r.client.CoreV1().ConfigMaps(systemNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(list.Items, func(c corev1.ConfigMap) bool { return strings.HasPrefix(c.Name, "routesrv-flags-") })
	if at < 0 {
		t.Fatal("there is no ConfigMap routesrv-flags")
	}
	path := filepath.Join(t.TempDir(), "flags.yaml")
	if err := os.WriteFile(path, []byte(list.Items[at].Data["flags.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
