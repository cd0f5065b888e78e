package dataplane_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// A proxy that embeds the client: the routes come from a route server, and from the file while no server is available.
func ExampleDataClient() {
	// The route server, with a table.
	cache, err := etagcache.New(etagcache.Config{})
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(cache.Handler())
	defer server.Close()
	cache.Publish(exampleTable(1, `shop: Host("^(shop[.]example[.]org)$") -> "http://10.2.0.1:8080";
		blog: Host("^(blog[.]example[.]org)$") -> "http://10.2.0.2:8080";`))

	// The client and its loop.
	state, err := os.MkdirTemp("", "state")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(state)
	client, err := dataplane.New(dataplane.Config{
		URLs:     []string{server.URL},
		Interval: 10 * time.Millisecond,
		StateDir: state,
	})
	if err != nil {
		panic(err)
	}
	client.Boot()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- client.Run(ctx) }()

	// The proxy: first all routes, then what has changed.
	routes := dataplane.NewDataClient(client, time.Minute)
	all, err := routes.LoadAll()
	if err != nil {
		panic(err)
	}
	fmt.Println(eskip.String(all...))

	cache.Publish(exampleTable(2, `shop: Host("^(shop[.]example[.]org)$") -> "http://10.2.0.3:8080";`))
	for {
		upserts, deleted, err := routes.LoadUpdate()
		if err != nil {
			panic(err)
		}
		if len(upserts)+len(deleted) > 0 {
			fmt.Println("upserts:", strings.TrimSpace(eskip.String(upserts...)))
			fmt.Println("deleted:", deleted)
			break
		}
		time.Sleep(10 * time.Millisecond) // the interval of the proxy
	}
	stop()
	if err := <-ended; err != nil {
		panic(err)
	}

	// Output:
	// blog: Host(/^(blog[.]example[.]org)$/) -> "http://10.2.0.2:8080";
	// shop: Host(/^(shop[.]example[.]org)$/) -> "http://10.2.0.1:8080";
	// upserts: shop: Host(/^(shop[.]example[.]org)$/) -> "http://10.2.0.3:8080";
	// deleted: [blog]
}

func exampleTable(revision uint64, document string) *table.Table {
	routes, err := table.Parse(document)
	if err != nil {
		panic(err)
	}
	t, err := table.New(routes, revision, time.Now())
	if err != nil {
		panic(err)
	}
	return t
}
