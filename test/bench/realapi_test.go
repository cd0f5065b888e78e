package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/programs"
	"github.com/routesrv/routesrv/test/scale"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// realAPI is a kube-apiserver with its etcd that contains the generated cluster.
type realAPI struct {
	kubeconfig string
	client     dynamic.Interface
	ingress    *unstructured.Unstructured // one of them
}

var (
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	resources  = map[string]schema.GroupVersionResource{
		"Ingress":       {Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
		"RouteGroup":    {Group: "zalando.org", Version: "v1", Resource: "routegroups"},
		"Service":       {Version: "v1", Resource: "services"},
		"EndpointSlice": {Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
	}
)

// newRealAPI starts the components and fills them, which takes a minute or more at factor 1.
func newRealAPI(b *testing.B) *realAPI {
	b.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		b.Skip("KUBEBUILDER_ASSETS is not set: no kube-apiserver to measure against (make assets)")
	}
	factor, err := strconv.ParseFloat(cmp.Or(os.Getenv("ROUTESRV_BENCH_FACTOR"), "1"), 64)
	if err != nil {
		b.Fatalf("ROUTESRV_BENCH_FACTOR: %v", err)
	}
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{"../../deploy/kustomize/crd"}, ErrorIfCRDPathMissing: true,
		ControlPlaneStopTimeout: 2 * time.Minute, // it has many objects to release
	}
	config, err := env.Start()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := env.Stop(); err != nil {
			b.Error(err)
		}
	})
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	a := &realAPI{kubeconfig: filepath.Join(b.TempDir(), "kubeconfig")}
	user, err := env.AddUser(envtest.User{Name: "bench", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	text, err := user.KubeConfig()
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(a.kubeconfig, text, 0o600); err != nil {
		b.Fatal(err)
	}
	if a.client, err = dynamic.NewForConfig(config); err != nil {
		b.Fatal(err)
	}
	a.fill(b, factor)
	return a
}

// fill creates the objects like kubectl.
func (a *realAPI) fill(b *testing.B, factor float64) {
	b.Helper()
	dir := b.TempDir()
	if err := scale.New(factor).WriteManifests(dir); err != nil {
		b.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		b.Fatal(err)
	}
	var workers sync.WaitGroup
	jobs := make(chan string)
	for range 32 {
		workers.Go(func() {
			for text := range jobs {
				if err := a.create(text); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for _, f := range files {
		ns := &unstructured.Unstructured{}
		ns.SetAPIVersion("v1")
		ns.SetKind("Namespace")
		ns.SetName(strings.TrimSuffix(filepath.Base(f), ".json"))
		if _, err := a.client.Resource(namespaces).Create(context.Background(), ns, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		text, err := os.ReadFile(f)
		if err != nil {
			b.Fatal(err)
		}
		for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
			jobs <- line
		}
	}
	close(jobs)
	workers.Wait()
	list, err := a.client.Resource(resources["Ingress"]).List(context.Background(), metav1.ListOptions{Limit: 1})
	if err != nil || len(list.Items) == 0 {
		b.Fatalf("%d ingresses: %v", len(list.Items), err)
	}
	a.ingress = &list.Items[0]
}

func (a *realAPI) create(text string) error {
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &o.Object); err != nil {
		return err
	}
	o.SetResourceVersion("")
	o.SetManagedFields(nil) // the server sets them
	if o.GetKind() == "Service" {
		// There are not enough addresses for all of them.
		if err := unstructured.SetNestedField(o.Object, corev1.ClusterIPNone, "spec", "clusterIP"); err != nil {
			return err
		}
		unstructured.RemoveNestedField(o.Object, "spec", "clusterIPs")
	}
	_, err := a.client.Resource(resources[o.GetKind()]).Namespace(o.GetNamespace()).Create(context.Background(), o,
		metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"})
	return err
}

// touch writes an object that no route server reads.
func (a *realAPI) touch(b *testing.B) {
	b.Helper()
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("v1")
	o.SetKind("ConfigMap")
	o.SetGenerateName("unrelated-")
	if _, err := a.client.Resource(configMaps).Namespace("default").Create(context.Background(), o, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// change gives the Ingress another filter.
func (a *realAPI) change(b *testing.B, n int) {
	b.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"zalando.org/skipper-filter":"setResponseHeader(\"X-N\", \"%d\")"}}}`, n)
	if _, err := a.client.Resource(resources["Ingress"]).Namespace(a.ingress.GetNamespace()).Patch(context.Background(),
		a.ingress.GetName(), "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		b.Fatal(err)
	}
}

// interval is the poll interval of the route server here.
const interval = 3 * time.Second

// BenchmarkRealAPI measures the cost of reading a real kube-apiserver, for each interval of three seconds: "idle" while only the
// API server itself writes, "busy" while unrelated objects are written. "change" is one changed Ingress, from the end of the
// write to the published table. KUBEBUILDER_ASSETS names the folder of the binaries.
func BenchmarkRealAPI(b *testing.B) {
	a, binary := newRealAPI(b), buildBinary(b)
	for _, how := range []string{"poll", "watch"} {
		b.Run(how, func(b *testing.B) {
			p := startReading(b, binary, interval, "--kubeconfig="+a.kubeconfig, "--kubernetes-read="+how)
			time.Sleep(2 * interval) // let the start finish its work
			for _, busy := range []bool{false, true} {
				b.Run(map[bool]string{false: "idle", true: "busy"}[busy], func(b *testing.B) {
					before := p.cpu(b)
					for b.Loop() {
						if busy {
							a.touch(b)
						}
						time.Sleep(interval)
					}
					b.ReportMetric(float64((p.cpu(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
					b.ReportMetric(p.peakMiB(b), "peak-MiB")
				})
			}
			n := 0
			b.Run("change", func(b *testing.B) {
				before, wait := p.cpu(b), time.Duration(0)
				for b.Loop() {
					etag := p.etag()
					n++
					a.change(b, n)
					begin := time.Now()
					for p.etag() == etag {
						time.Sleep(5 * time.Millisecond)
					}
					wait += time.Since(begin)
					time.Sleep(interval) // changes must not run into each other
				}
				b.ReportMetric(float64((p.cpu(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
				b.ReportMetric(float64(wait.Microseconds())/1000/float64(b.N), "write-to-table-ms/op")
				b.ReportMetric(p.peakMiB(b), "peak-MiB")
			})
		})
	}
}

// BenchmarkRealAPIFirstTable measures the start of the route server with a real kube-apiserver until the first table: the
// processor time of the process and the elapsed time. ROUTESRV_BENCH_PROFILE names a folder for a profile of each way to read.
func BenchmarkRealAPIFirstTable(b *testing.B) {
	a, binary := newRealAPI(b), buildBinary(b)
	for _, how := range []string{"poll", "watch"} {
		b.Run(how, func(b *testing.B) {
			var used, waited time.Duration
			for b.Loop() {
				begin := time.Now()
				p, profiled := a.startProfiled(b, binary, how)
				used, waited = used+p.cpu(b), waited+time.Since(begin)
				profiled()
				p.stop()
			}
			b.ReportMetric(float64(used.Milliseconds())/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(waited.Milliseconds())/float64(b.N), "wall-ms/op")
		})
	}
}

// startProfiled starts the binary and waits for the first table. The returned function waits for the profile.
func (a *realAPI) startProfiled(b *testing.B, binary, how string) (*process, func()) {
	b.Helper()
	args := []string{"--kubeconfig=" + a.kubeconfig, "--kubernetes-read=" + how}
	dir := os.Getenv("ROUTESRV_BENCH_PROFILE")
	if dir == "" {
		return startReading(b, binary, interval, args...), func() {}
	}
	support := programs.FreeAddress(b)
	written := make(chan error, 1)
	go func() {
		written <- saveProfile("http://"+support+"/debug/pprof/profile?seconds=20", filepath.Join(dir, how+".pprof"))
	}()
	p := startReading(b, binary, interval, append(args, "-enable-profile", "-support-listener="+support)...)
	return p, func() {
		if err := <-written; err != nil {
			b.Error(err)
		}
	}
}

// saveProfile requests a profile until the listener is open.
func saveProfile(url, path string) error {
	for {
		resp, err := http.Get(url)
		if err != nil {
			time.Sleep(time.Millisecond)
			continue
		}
		defer resp.Body.Close()
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		if _, err := io.Copy(f, resp.Body); err != nil {
			return err
		}
		return f.Close()
	}
}
