package bench
import ("testing";"os";"net/http";"time";"io")
func TestZZ(t *testing.T){ 
 b:=&testing.B{}
 _ = b
 res:=testing.Benchmark(func(b *testing.B){
  if b.N>1 {return}
  a:=newAPI(b)
  p:=startWith(b, buildBinary(b), "-kubernetes", "-enable-kubernetes-endpointslices","-source-poll-timeout=60000","-kubernetes-url="+a.server.URL)
  _ = p
  r,err:=http.Get("http://127.0.0.1:19007/debug/pprof/allocs"); if err!=nil{t.Fatal(err)}
  f,_:=os.Create("/tmp/w/first.allocs"); io.Copy(f,r.Body); f.Close()
  r,err=http.Get("http://127.0.0.1:19007/metrics"); if err!=nil{t.Fatal(err)}
  f,_=os.Create("/tmp/w/first.metrics"); io.Copy(f,r.Body); f.Close()
  time.Sleep(2*time.Second)
  r,err=http.Get("http://127.0.0.1:19007/debug/pprof/heap?gc=1"); if err!=nil{t.Fatal(err)}
  f,_=os.Create("/tmp/w/first.heap"); io.Copy(f,r.Body); f.Close()
 })
 t.Log(res)
}
